//! Connections of clients and nodes to a scheduler.

use super::peer::stranger;
use super::token::Token;
use crate::identity::tls;
use crate::private;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::codegen::{Service, http::Uri};
use tonic::service::Interceptor;
use tonic::transport::{Channel, Endpoint, Error};
use tonic::{Request, Status};

/// Timeout of a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Credentials of a client or a node.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// A shared secret, or nothing. The connection is not encrypted.
    Token(Token),
    /// The file with a shared secret, as [`Credentials::Token`]. It is read again for each
    /// connection, and is nothing while it is missing.
    TokenFile(PathBuf),
    /// The file with a key and a certificate. It is read again for each connection.
    Identity(PathBuf),
    /// Nothing yet; the scheduler must be of the authority with this fingerprint.
    Newcomer(String),
}

impl Credentials {
    /// Reads the file of the secret, and checks the file of the certificate.
    pub(crate) fn read(&self) -> Result<Credentials, UnusableCredentials> {
        let unusable = |e: &dyn std::fmt::Display| UnusableCredentials(e.to_string());
        Ok(match self {
            Credentials::TokenFile(path) if path.exists() => Token::read(path)
                .map_err(|e| unusable(&format_args!("{}: {e}", path.display())))?
                .into(),
            Credentials::TokenFile(_) => Credentials::default(),
            Credentials::Identity(path) => {
                tls::client(path).map_err(|e| unusable(&e))?;
                self.clone()
            }
            other => other.clone(),
        })
    }
}

/// The file of a secret or a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnusableCredentials(String);

impl From<Token> for Credentials {
    fn from(token: Token) -> Self {
        Credentials::Token(token)
    }
}

impl Default for Credentials {
    fn default() -> Self {
        Credentials::Token(Token::none())
    }
}

/// Adds the secret to outgoing requests.
impl Interceptor for Credentials {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        match self {
            Credentials::Token(token) => token.call(request),
            _ => Ok(request),
        }
    }
}

/// Connects to the scheduler at a URL. Both sides notice a dead connection after `beat` without an
/// answer.
pub(crate) async fn dial(
    url: &str,
    credentials: &Credentials,
    beat: (Duration, Duration),
    idle: bool,
) -> Result<Channel, Error> {
    let endpoint = Endpoint::from_shared(url.to_owned())?
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(beat.0)
        .keep_alive_timeout(beat.1)
        .keep_alive_while_idle(idle);
    let connector = Connector(credentials.clone());
    endpoint.connect_with_connector(connector).await
}

/// A connection, encrypted or not.
pub(crate) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// Opens the connections of a channel.
#[derive(Clone)]
struct Connector(Credentials);

impl Connector {
    async fn connect(self, uri: Uri) -> io::Result<TokioIo<Box<dyn Io>>> {
        let host = uri.host().unwrap_or_default();
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let port = uri.port_u16().unwrap_or_default();
        let tls = match &self.0 {
            Credentials::Token(_) | Credentials::TokenFile(_) => None,
            Credentials::Identity(path) => Some(tls::client(path)),
            Credentials::Newcomer(fingerprint) => Some(tls::newcomer(fingerprint)),
        };
        let tls = tls.transpose().map_err(io::Error::other)?;
        let tcp = TcpStream::connect((host.as_str(), port)).await?;
        tcp.set_nodelay(true)?;
        if let Some(tls) = tls {
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            let refused = |e: io::Error| {
                let (_, text) = tls::reason(&e, "the scheduler");
                io::Error::new(e.kind(), text)
            };
            let stream = TlsConnector::from(tls).connect(name, tcp).await;
            let mut stream = BufReader::new(stream.map_err(refused)?);
            // The scheduler checks the certificate after the client's side of the handshake. Its first
            // bytes are the settings of HTTP/2, or an alert.
            if stream.fill_buf().await.map_err(refused)?.is_empty() {
                let text = "the scheduler closed the connection after the handshake";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text));
            }
            return Ok(TokioIo::new(Box::new(stream)));
        }
        if let Credentials::Token(token) = &self.0
            && token.is_some()
        {
            let trusted = [Some(private::user()?), token.owner()];
            let trusted: Vec<u32> = trusted.into_iter().flatten().collect();
            if let Some(user) = stranger(tcp.peer_addr()?, &trusted) {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    format!("user {user} serves this address, and would receive the token"),
                ));
            }
        }
        Ok(TokioIo::new(Box::new(tcp)))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

//! Settings of TLS for the scheduler, its clients and its nodes.

use super::authority::Authority;
use super::{IdentityError, IdentityFile, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme, version::TLS13,
};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The only protocol above TLS.
const HTTP2: &[u8] = b"h2";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn roots(authority: &[u8]) -> Result<Arc<RootCertStore>, IdentityError> {
    let mut roots = RootCertStore::empty();
    let der = CertificateDer::from(authority.to_vec());
    roots.add(der).map_err(IdentityError::invalid)?;
    Ok(Arc::new(roots))
}

/// TLS of a scheduler. A changed certificate applies to new connections.
pub struct ServerTls {
    authority: Arc<Authority>,
    loaded: Mutex<(Option<SystemTime>, Arc<ServerConfig>)>,
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerTls({:?})", self.authority)
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|m| m.modified()).ok()
}

fn server(path: &Path) -> Result<Arc<ServerConfig>, IdentityError> {
    let file = IdentityFile::read(path)?;
    let roots = roots(file.authority())?;
    // A newcomer without a certificate may join, and nothing else.
    let clients = WebPkiClientVerifier::builder_with_provider(roots, provider());
    let clients = clients.allow_unauthenticated().build();
    let clients = clients.map_err(IdentityError::invalid)?;
    let config = ServerConfig::builder_with_provider(provider());
    let config = config.with_protocol_versions(&[&TLS13]);
    let config = config.map_err(IdentityError::invalid)?;
    let config = config.with_client_cert_verifier(clients);
    let config = config.with_single_cert(file.chain, file.key);
    let mut config = config.map_err(IdentityError::invalid)?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    // A resumed session would not show its certificate again.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

impl ServerTls {
    /// Reads the certificate of the scheduler of an authority.
    ///
    /// # Errors
    /// A file cannot be read or is invalid.
    pub fn new(authority: Arc<Authority>) -> Result<Self, IdentityError> {
        let path = authority.scheduler_file();
        let loaded = Mutex::new((changed(&path), server(&path)?));
        Ok(ServerTls { authority, loaded })
    }

    /// Returns the authority.
    pub fn authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    /// Returns the settings of a new connection. The last valid certificate stays in use while the
    /// file is invalid.
    pub fn config(&self) -> Arc<ServerConfig> {
        let path = self.authority.scheduler_file();
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let now = changed(&path);
        if now.is_some()
            && now != loaded.0
            && let Ok(config) = server(&path)
        {
            *loaded = (now, config);
        }
        Arc::clone(&loaded.1)
    }
}

/// Returns the settings of a client with a certificate, which trusts only its own authority.
///
/// # Errors
/// The file cannot be read or is invalid.
pub fn client(identity: &Path) -> Result<Arc<ClientConfig>, IdentityError> {
    let mut file = IdentityFile::read(identity)?;
    let roots = roots(file.authority())?;
    // The scheduler has the certificate of the authority.
    file.chain.truncate(1);
    let config = ClientConfig::builder_with_provider(provider());
    let config = config.with_protocol_versions(&[&TLS13]);
    let config = config.map_err(IdentityError::invalid)?;
    let config = config.with_root_certificates(roots);
    let config = config.with_client_auth_cert(file.chain, file.key);
    let mut config = config.map_err(IdentityError::invalid)?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(Arc::new(config))
}

/// Returns the settings of a client without a certificate, which trusts the authority of this
/// fingerprint.
///
/// # Errors
/// TLS cannot be used.
pub fn newcomer(fingerprint: &str) -> Result<Arc<ClientConfig>, IdentityError> {
    let config = ClientConfig::builder_with_provider(provider());
    let config = config.with_protocol_versions(&[&TLS13]);
    let config = config.map_err(IdentityError::invalid)?;
    let pinned = Pinned {
        fingerprint: fingerprint.to_owned(),
        provider: provider(),
    };
    let config = config.dangerous();
    let config = config.with_custom_certificate_verifier(Arc::new(pinned));
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(Arc::new(config))
}

/// Trusts the authority of a fingerprint, which the scheduler shows.
#[derive(Debug)]
struct Pinned {
    fingerprint: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let pinned = others.iter().find(|der| digest(der) == self.fingerprint);
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let roots = roots(pinned.ok_or_else(unknown)?).map_err(|_| unknown())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, self.provider.clone());
        let verifier = verifier.build().map_err(|_| unknown())?;
        verifier.verify_server_cert(own, &[], name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Returns the reason of a failed handshake as a label of metrics and as a sentence. `other` names
/// the other side.
pub(crate) fn reason(error: &io::Error, other: &str) -> (&'static str, String) {
    use CertificateError as C;
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
    let Some(inner) = inner else {
        let label = match error.kind() {
            io::ErrorKind::TimedOut => "timeout",
            _ => "broken",
        };
        return (label, format!("{other} ended the handshake: {error}"));
    };
    let (label, text) = match inner {
        Error::InvalidCertificate(why) => match why {
            C::Expired | C::ExpiredContext { .. } => ("expired", "has expired"),
            C::NotValidYet | C::NotValidYetContext { .. } => {
                ("not_yet_valid", "is not valid yet: compare the clocks")
            }
            C::UnknownIssuer | C::BadSignature => (
                "other_authority",
                "is not from the authority of this cluster",
            ),
            C::NotValidForName | C::NotValidForNameContext { .. } => (
                "wrong_name",
                "is for other host names: name this one in `blox init --host`",
            ),
            C::InvalidPurpose | C::InvalidPurposeContext { .. } => {
                ("wrong_purpose", "is for another purpose")
            }
            _ => ("invalid", "is invalid"),
        },
        Error::InvalidMessage(_) => {
            return ("plaintext", format!("{other} does not use TLS"));
        }
        Error::AlertReceived(alert) => {
            let text = alert_text(&format!("{alert:?}"));
            return ("refused_by_peer", format!("{other} {text}"));
        }
        error => {
            return (
                "protocol",
                format!("the handshake with {other} failed: {error}"),
            );
        }
    };
    (label, format!("the certificate of {other} {text}"))
}

/// Returns the sentence of an alert of TLS, by its name.
fn alert_text(alert: &str) -> String {
    let why = match alert {
        "CertificateExpired" => "it has expired, or is not valid yet",
        "UnknownCA" | "DecryptError" => "it is not from the authority of this cluster",
        "BadCertificate" | "CertificateUnknown" => "it is invalid",
        "UnsupportedCertificate" => "it is for another purpose",
        "CertificateRequired" => "it is missing",
        other => return format!("ended the connection with the alert {other}"),
    };
    format!("refuses this certificate: {why}")
}

/// Replaces the alert that the scheduler sent by a sentence. An alert arrives after the handshake, as
/// the error of the first call.
pub(crate) fn explain(text: &str) -> String {
    match text.rsplit_once("received fatal alert: ") {
        Some((_, alert)) => format!("the scheduler {}", alert_text(alert.trim())),
        // The record of TLS in which it refuses plain text.
        None if text.contains("frame with invalid size") => {
            "it requires a certificate: `blox login` with a token of its operator stores one"
                .to_owned()
        }
        None => text.to_owned(),
    }
}

//! Incoming connections, with limits on their number and on the time until the first authenticated
//! request.

use super::address::group;
use super::dial::Io;
use super::notes::Notes;
use crate::identity::Principal;
use crate::identity::tls::{self, ServerTls};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// File descriptors that are reserved for the log, the archive and the programs of nodes.
const RESERVE: u64 = 128;
/// Limit on concurrent connections, whatever the limit of file descriptors.
const MOST: u64 = 16_384;
/// Limit on concurrent connections for metrics.
const METRICS: usize = 64;
/// Time for which a refused handshake waits for the other side to close the connection.
const LINGER: Duration = Duration::from_secs(1);
/// Delay after a failed accept, for example because no file descriptor is left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Limits on the connections of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionLimits {
    /// Limit on concurrent connections. Further ones are closed.
    pub all: usize,
    /// Limit on concurrent connections of one address. Further ones are closed.
    pub per_address: usize,
    /// Limit on concurrent connections without an authenticated request. The oldest is closed
    /// for a new one, so idle connections keep no user out.
    pub unknown: usize,
    /// The same for one address.
    pub unknown_per_address: usize,
    /// Time until the first authenticated request. After it, the connection is closed.
    pub first_request: Duration,
}

impl ConnectionLimits {
    /// Returns the limits of a process that may open this number of files.
    fn of_files(files: u64) -> Self {
        let all = files.saturating_sub(RESERVE).clamp(16, MOST) as usize;
        ConnectionLimits {
            all,
            per_address: all / 4 * 3,
            unknown: all / 2,
            unknown_per_address: all / 4,
            first_request: Duration::from_secs(5),
        }
    }

    /// Raises the soft limit of open files of this process to the hard limit, and returns limits
    /// below it.
    pub fn raise() -> Self {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        // The kernel permits the hard limit; otherwise the soft limit remains.
        let current = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit.maximum,
            Err(_) => limit.current,
        };
        ConnectionLimits::of_files(current.unwrap_or(u64::MAX))
    }

    /// Returns the limits of the port for metrics, which has no authenticated requests.
    pub fn metrics() -> Self {
        ConnectionLimits {
            all: METRICS + 1,
            per_address: METRICS + 1,
            unknown: METRICS,
            unknown_per_address: METRICS / 2,
            first_request: Duration::from_secs(5),
        }
    }
}

/// Returns the incoming connections of a socket, until the stream is dropped.
///
/// An incomplete handshake of TLS counts as a connection without an authenticated request.
pub(super) fn connections(
    listener: TcpListener,
    limits: ConnectionLimits,
    tls: Option<(Arc<ServerTls>, Notes)>,
) -> ReceiverStream<io::Result<Connection>> {
    let (tx, rx) = mpsc::channel(16);
    let table = Arc::new(Table {
        limits,
        open: Mutex::default(),
    });
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = tx.closed() => return,
            };
            let Ok((tcp, from)) = accepted else {
                // Open connections continue.
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            };
            let Some((peer, admitted)) = table.add(from) else {
                continue;
            };
            let _ = tcp.set_nodelay(true);
            let Some((tls, notes)) = &tls else {
                let connection = Connection::new(Box::new(tcp), peer, admitted, limits);
                if tx.send(Ok(connection)).await.is_err() {
                    return;
                }
                continue;
            };
            let (acceptor, tx) = (TlsAcceptor::from(tls.config()), tx.clone());
            let notes = notes.clone();
            tokio::spawn(async move {
                let (mut peer, mut admitted) = (peer, admitted);
                let secured = tokio::select! {
                    secured = secured(acceptor, tcp, limits.first_request) => secured,
                    // A newer connection needs the place.
                    _ = &mut admitted => return,
                };
                match secured {
                    Ok((stream, principal)) => {
                        peer.principal = principal;
                        let connection = Connection::new(stream, peer, admitted, limits);
                        // The server may be stopping.
                        let _ = tx.send(Ok(connection)).await;
                    }
                    Err((label, why, tcp)) => {
                        notes.refused(peer.address, None, "", label, &why);
                        if let Some(tcp) = tcp {
                            let _ = tokio::time::timeout(LINGER, linger(tcp)).await;
                        }
                    }
                }
            });
        }
    });
    ReceiverStream::new(rx)
}

/// Open connections of a port.
#[derive(Debug)]
struct Table {
    limits: ConnectionLimits,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    all: usize,
    /// Number of connections of each address.
    of: BTreeMap<IpAddr, usize>,
    /// Connections without an authenticated request, oldest first. One is closed when its sender
    /// is dropped.
    unknown: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
}

impl Table {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, and closes an older one without an authenticated request if there are
    /// too many. Returns `None` if the connection must be closed.
    fn add(self: &Arc<Self>, address: SocketAddr) -> Option<(Peer, oneshot::Receiver<()>)> {
        let group = group(address.ip());
        let mut open = self.open();
        let of = open.unknown.iter().filter(|(_, (from, _))| *from == group);
        let (first, count) = of.fold((None, 0), |(first, count), (id, _)| {
            (first.or(Some(*id)), count + 1)
        });
        if count >= self.limits.unknown_per_address
            && let Some(id) = first
        {
            open.unknown.remove(&id);
        } else if open.unknown.len() >= self.limits.unknown {
            open.unknown.pop_first();
        }
        let mine = open.of.get(&group).copied().unwrap_or(0);
        if open.all >= self.limits.all || mine >= self.limits.per_address {
            return None;
        }
        open.last += 1;
        open.all += 1;
        *open.of.entry(group).or_default() += 1;
        let (admit, admitted) = oneshot::channel();
        let id = open.last;
        open.unknown.insert(id, (group, admit));
        drop(open);
        let slot = Slot {
            table: Arc::clone(self),
            group,
            id,
        };
        let peer = Peer {
            address,
            principal: None,
            slot: Arc::new(slot),
        };
        Some((peer, admitted))
    }
}

/// Entry of a connection, removed with its last owner.
#[derive(Debug)]
struct Slot {
    table: Arc<Table>,
    group: IpAddr,
    id: u64,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.table.open();
        open.all -= 1;
        open.unknown.remove(&self.id);
        if let Some(count) = open.of.get_mut(&self.group) {
            *count -= 1;
            if *count == 0 {
                open.of.remove(&self.group);
            }
        }
    }
}

/// The other end of a connection, an extension of each of its requests.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Holder of its certificate.
    pub principal: Option<Principal>,
    slot: Arc<Slot>,
}

impl Peer {
    /// Records an authenticated request: the connection has no more time limit.
    pub fn admit(&self) {
        let entry = self.slot.table.open().unknown.remove(&self.slot.id);
        if let Some((_, admit)) = entry {
            // The connection may have ended.
            let _ = admit.send(());
        }
    }
}

/// A connection that has had no authenticated request.
struct Unknown {
    /// Resolves at the first authenticated request. It fails if the connection must be closed.
    admitted: oneshot::Receiver<()>,
    by: Pin<Box<Sleep>>,
}

/// A connection that fails without an authenticated request in time.
pub(super) struct Connection {
    stream: Box<dyn Io>,
    peer: Peer,
    unknown: Option<Unknown>,
}

impl Connection {
    fn new(
        stream: Box<dyn Io>,
        peer: Peer,
        admitted: oneshot::Receiver<()>,
        limits: ConnectionLimits,
    ) -> Self {
        Connection {
            stream,
            peer,
            unknown: Some(Unknown {
                admitted,
                by: Box::pin(tokio::time::sleep(limits.first_request)),
            }),
        }
    }
}

/// Reads until the other side closes a connection. A connection that is closed with unread bytes
/// could lose the alert that states why it is refused.
async fn linger(mut tcp: TcpStream) -> io::Result<()> {
    tcp.shutdown().await?;
    let mut buffer = [0; 1024];
    while tcp.read(&mut buffer).await? > 0 {}
    Ok(())
}

/// Reason of a refused handshake: a label, a sentence, and the connection if it still exists.
type RefusedHandshake = (&'static str, String, Option<TcpStream>);

/// Completes the handshake of a connection. Returns the holder of its certificate.
async fn secured(
    acceptor: TlsAcceptor,
    tcp: TcpStream,
    limit: Duration,
) -> Result<(Box<dyn Io>, Option<Principal>), RefusedHandshake> {
    let accepted = tokio::time::timeout(limit, acceptor.accept(tcp).into_fallible()).await;
    let late = |_| {
        let seconds = limit.as_secs();
        (
            "timeout",
            format!("the handshake took longer than {seconds} s"),
            None,
        )
    };
    let stream = accepted.map_err(late)?;
    let stream = stream.map_err(|(e, tcp)| {
        let (label, why) = tls::reason(&e, "the client");
        (label, why, Some(tcp))
    })?;
    let shown = stream.get_ref().1.peer_certificates();
    let own = shown.and_then(|chain| chain.first());
    let principal = own.map(|der| Principal::of(der)).transpose();
    let principal = principal.map_err(|e| ("invalid", e.to_string(), None))?;
    Ok((Box::new(stream), principal))
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(unknown) = &mut self.unknown {
            match Pin::new(&mut unknown.admitted).poll(cx) {
                Poll::Ready(Ok(())) => self.unknown = None,
                Poll::Ready(Err(_)) => {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                }
                Poll::Pending => {
                    if unknown.by.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    }
                }
            }
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(limits: ConnectionLimits) -> Arc<Table> {
        let open = Mutex::default();
        Arc::new(Table { limits, open })
    }

    #[test]
    fn limits_stay_below_the_limit_of_open_files() {
        let of = ConnectionLimits::of_files;
        assert_eq!(of(1_024).all, 896);
        assert_eq!(of(u64::MAX).all, 16_384);
        assert!(of(0).unknown_per_address > 0);
    }

    #[test]
    fn oldest_unknown_connection_makes_room_for_a_new_one() {
        let table = table(ConnectionLimits {
            all: 10,
            per_address: 6,
            unknown: 4,
            unknown_per_address: 2,
            first_request: Duration::from_secs(5),
        });
        let ip = |n: u8| SocketAddr::from(([10, 0, 0, n], 1));
        let is_closed = |r: &mut oneshot::Receiver<()>| {
            r.try_recv() == Err(oneshot::error::TryRecvError::Closed)
        };
        let (known, mut admitted) = table.add(ip(1)).unwrap();
        known.admit();
        assert_eq!(admitted.try_recv(), Ok(()));
        let mut idle: Vec<_> = (0..3).map(|_| table.add(ip(1)).unwrap()).collect();
        let closed: Vec<bool> = idle.iter_mut().map(|(_, r)| is_closed(r)).collect();
        // The limit of one address concerns no other address.
        assert_eq!(closed, [true, false, false]);
        let mut others = [2, 3].map(|n| table.add(ip(n)).unwrap());
        assert!(!is_closed(&mut idle[1].1));
        let last = table.add(ip(4)).unwrap();
        assert!(is_closed(&mut idle[1].1));
        assert!(!is_closed(&mut others[0].1));
        // Known connections count, and are not closed.
        drop((idle, others, last));
        let many: Vec<_> = std::iter::from_fn(|| table.add(ip(1)))
            .map(|(peer, _)| peer.admit())
            .take(3)
            .collect();
        assert_eq!(many.len(), 3);
        let kept: Vec<_> = (0..5).filter_map(|_| table.add(ip(1))).collect();
        kept.iter().for_each(|(peer, _)| peer.admit());
        assert_eq!(kept.len(), 5);
        assert!(table.add(ip(1)).is_none());
        assert!(table.add(ip(2)).is_some());
    }
}

//! Connections: not too many, and only such that begin to speak in time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Connections at a time.
const MOST: usize = 4096;
/// Bytes with which HTTP/2 begins.
const PREFACE: usize = 24;
/// By when they have to be there.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Returns what comes in at a socket, until nobody wants it any more.
pub(super) fn connections(listener: TcpListener) -> ReceiverStream<io::Result<Connection>> {
    let (tx, rx) = mpsc::channel(16);
    let slots = Arc::new(Semaphore::new(MOST));
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = tx.closed() => return,
            };
            let Ok((tcp, _)) = accepted else {
                // Out of file descriptors, say: those that are open go on.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            // One too many is closed at once.
            let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                continue;
            };
            let _ = tcp.set_nodelay(true);
            let connection = Connection {
                tcp,
                _slot: slot,
                read: 0,
                by: Some(Box::pin(tokio::time::sleep(HANDSHAKE))),
            };
            if tx.send(Ok(connection)).await.is_err() {
                return;
            }
        }
    });
    ReceiverStream::new(rx)
}

/// A connection that ends if its beginning does not come in time.
pub(super) struct Connection {
    tcp: TcpStream,
    _slot: OwnedSemaphorePermit,
    read: usize,
    by: Option<Pin<Box<Sleep>>>,
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.tcp.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(by) = &mut self.by
            && by.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        let done = Pin::new(&mut self.tcp).poll_read(cx, buffer);
        self.read += buffer.filled().len() - before;
        if self.read >= PREFACE {
            self.by = None;
        }
        done
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}

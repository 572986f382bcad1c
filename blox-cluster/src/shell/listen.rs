//! Incoming connections, with limits on their number and on the duration of the handshake.

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

/// Limit on concurrent connections.
const MOST: usize = 4096;
/// Size of the HTTP/2 preface in bytes.
const PREFACE: usize = 24;
/// Timeout for the arrival of the preface.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Returns the incoming connections of a socket, until the stream is dropped.
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
                // For example out of file descriptors. Open connections continue.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            // A connection above the limit is closed immediately.
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

/// A connection that fails if its preface does not arrive in time.
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

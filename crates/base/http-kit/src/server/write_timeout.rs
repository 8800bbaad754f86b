//! Closes the connection of a client that takes nothing of what is sent to it.
//!
//! A stream of events has no end, so a client that stops reading would hold its connection, and the buffers for
//! it, for as long as its machine is up. The time runs only while there is data to send and none of it is
//! accepted; any progress restarts it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection whose writes must progress. `G` is dropped with the connection, also after an upgrade moved it to
/// another task.
pub(crate) struct WriteTimeout<S, G> {
    inner: S,
    /// No limit without one.
    limit: Option<Duration>,
    _guard: G,
    /// Made at the first wait, so that idle connections have none.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl<S, G> WriteTimeout<S, G> {
    pub(crate) fn new(inner: S, limit: Option<Duration>, guard: G) -> WriteTimeout<S, G> {
        WriteTimeout {
            inner,
            limit,
            _guard: guard,
            timer: None,
            waiting: false,
        }
    }

    /// Returns a write's outcome; a write that has been pending for too long fails.
    fn watch<T>(&mut self, wrote: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let Some(limit) = self.limit else {
            return wrote;
        };
        if wrote.is_ready() {
            self.waiting = false;
            return wrote;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        if !self.waiting {
            timer.as_mut().reset(Instant::now() + limit);
            self.waiting = true;
        }
        match timer.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let why = "the client took nothing for too long";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
            }
        }
    }
}

impl<S: AsyncRead + Unpin, G: Unpin> AsyncRead for WriteTimeout<S, G> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin, G: Unpin> AsyncWrite for WriteTimeout<S, G> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.watch(wrote, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.watch(wrote, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        self.watch(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.inner).poll_shutdown(context);
        self.watch(shut, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut_off() {
        let (ours, _theirs) = duplex(16);
        let mut ours = WriteTimeout::new(ours, Some(LIMIT), ());
        let began = Instant::now();
        let error = ours.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= LIMIT && began.elapsed() < LIMIT * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_little_now_and_then_is_not() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = WriteTimeout::new(ours, Some(LIMIT), ());
        let reader = async {
            let mut buffer = [0; 16];
            for _ in 0..10 {
                tokio::time::sleep(LIMIT * 2 / 3).await;
                theirs.read_exact(&mut buffer).await.unwrap();
            }
        };
        let (wrote, ()) = tokio::join!(ours.write_all(&[0; 160]), reader);
        wrote.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_limit_waits() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = WriteTimeout::new(ours, None, ());
        let reader = async {
            tokio::time::sleep(LIMIT * 10).await;
            theirs.read_exact(&mut [0; 64]).await.unwrap();
        };
        let (wrote, ()) = tokio::join!(ours.write_all(&[0; 64]), reader);
        wrote.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_has_all_the_time() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = WriteTimeout::new(ours, Some(LIMIT), ());
        ours.write_all(&[0; 8]).await.unwrap();
        tokio::time::sleep(LIMIT * 10).await;
        ours.write_all(&[0; 8]).await.unwrap();
        theirs.read_exact(&mut [0; 16]).await.unwrap();
    }
}

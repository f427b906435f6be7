//! Batches prepared ahead of time by one thread, through a bounded queue.
//!
//! The queue holds at most `depth` finished batches; buffers go back to the thread and are used
//! again. The order of batches is that of the lists. Libraries do not read the clock:
//! [`Prefetch::next_timed`] takes the caller's.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::Error;

/// Finished batches `B`, in order.
pub struct Prefetch<B> {
    ready: Option<Receiver<Result<B, Error>>>,
    spare: Sender<B>,
    thread: Option<JoinHandle<()>>,
    waited: Duration,
}

impl<B: Default + Send + 'static> Prefetch<B> {
    /// Starts filling a buffer for each list of sample indices.
    ///
    /// # Domain
    /// `depth` at least 1 (0 is taken as 1): batches that may wait in the queue.
    pub fn start<L, F>(batches: L, depth: usize, fill: F) -> Self
    where
        L: IntoIterator<Item = Vec<u64>> + Send + 'static,
        F: FnMut(&[u64], &mut B) -> Result<(), Error> + Send + 'static,
    {
        let (send, ready) = sync_channel(depth.max(1));
        let (spare, returned) = channel();
        let thread = std::thread::spawn(move || produce(batches, fill, &send, &returned));
        Self {
            ready: Some(ready),
            spare,
            thread: Some(thread),
            waited: Duration::ZERO,
        }
    }

    /// The next batch; `None` after the last one.
    ///
    /// # Errors
    /// What `fill` returned (no batches follow), or [`Error::Worker`] if it panicked.
    #[allow(
        clippy::should_implement_trait,
        reason = "buffers are handed back between the calls"
    )]
    pub fn next(&mut self) -> Option<Result<B, Error>> {
        if let Some(batch) = self.ready.as_ref().and_then(|ready| ready.recv().ok()) {
            return Some(batch);
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Some(Err(Error::Worker)),
            _ => None,
        }
    }

    /// [`Prefetch::next`], adding the time it took by the caller's clock to [`Prefetch::waited`].
    ///
    /// # Errors
    /// As [`Prefetch::next`].
    pub fn next_timed(&mut self, clock: impl Fn() -> Duration) -> Option<Result<B, Error>> {
        let start = clock();
        let batch = self.next();
        self.waited += clock().saturating_sub(start);
        batch
    }

    /// The time spent waiting in [`Prefetch::next_timed`].
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Gives a used buffer back.
    pub fn recycle(&mut self, buffer: B) {
        // After the last batch nobody takes buffers any more.
        let _ = self.spare.send(buffer);
    }
}

fn produce<B: Default>(
    batches: impl IntoIterator<Item = Vec<u64>>,
    mut fill: impl FnMut(&[u64], &mut B) -> Result<(), Error>,
    send: &SyncSender<Result<B, Error>>,
    returned: &Receiver<B>,
) {
    for indices in batches {
        let mut buffer = returned.try_recv().unwrap_or_default();
        let result = fill(&indices, &mut buffer).map(|()| buffer);
        let failed = result.is_err();
        // The receiver is gone when the caller stopped early.
        if send.send(result).is_err() || failed {
            return;
        }
    }
}

impl<B> Drop for Prefetch<B> {
    /// Stops the thread after the batch it is at.
    fn drop(&mut self) {
        self.ready = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was or will be nobody's result any more.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn lists(count: u64) -> Vec<Vec<u64>> {
        (0..count).map(|k| vec![k, k + 1]).collect()
    }

    #[test]
    fn order_and_recycling() {
        let fresh = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&fresh);
        let mut prefetch = Prefetch::<Vec<u64>>::start(lists(100), 3, move |indices, buffer| {
            if buffer.capacity() == 0 {
                counter.fetch_add(1, Ordering::Relaxed);
                buffer.reserve(64);
            }
            buffer.clear();
            buffer.extend_from_slice(indices);
            Ok(())
        });
        for expected in lists(100) {
            let batch = prefetch.next().unwrap().unwrap();
            assert_eq!(batch, expected);
            prefetch.recycle(batch);
        }
        assert!(prefetch.next().is_none());
        assert!(prefetch.next().is_none());
        // The queue, one being filled, one in use and one on its way back.
        assert!(fresh.load(Ordering::Relaxed) <= 6);
    }

    #[test]
    fn the_queue_is_bounded() {
        let filled = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&filled);
        let mut prefetch = Prefetch::<u64>::start(lists(50), 2, move |indices, buffer| {
            counter.fetch_add(1, Ordering::SeqCst);
            *buffer = indices[0];
            Ok(())
        });
        assert_eq!(prefetch.next().unwrap().unwrap(), 0);
        // However long the thread runs: one taken, two in the queue, one filled and blocked.
        std::thread::sleep(Duration::from_millis(50));
        assert!(filled.load(Ordering::SeqCst) <= 4);
        drop(prefetch);
        assert!(filled.load(Ordering::SeqCst) <= 5);
    }

    #[test]
    fn errors_and_panics_arrive_once() {
        let mut prefetch = Prefetch::<u64>::start(lists(5), 1, |indices, _| match indices[0] {
            2 => Err(Error::Index { index: 2, rows: 0 }),
            _ => Ok(()),
        });
        assert!(prefetch.next().unwrap().is_ok());
        assert!(prefetch.next().unwrap().is_ok());
        assert!(matches!(prefetch.next(), Some(Err(Error::Index { .. }))));
        assert!(prefetch.next().is_none());
        let mut prefetch = Prefetch::<u64>::start(lists(5), 1, |_, _| panic!("on purpose"));
        assert!(matches!(prefetch.next(), Some(Err(Error::Worker))));
        assert!(prefetch.next().is_none());
    }

    #[test]
    fn waiting_is_measured_by_the_given_clock() {
        let ticks = std::cell::Cell::new(0);
        let clock = || {
            ticks.set(ticks.get() + 7);
            Duration::from_secs(ticks.get())
        };
        let mut prefetch = Prefetch::<u64>::start(lists(3), 1, |_, _| Ok(()));
        while prefetch.next_timed(clock).is_some() {}
        assert_eq!(prefetch.waited(), Duration::from_secs(4 * 7));
    }
}

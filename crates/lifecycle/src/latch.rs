//! Something that becomes true once, and tasks that wait for it.

use tokio_util::sync::CancellationToken;

/// Clones are the same latch. Waiters wake in the order in which they came; those of
/// `tokio::sync::watch` wake in an order that its own random numbers choose, so that no simulation
/// would repeat.
#[derive(Clone, Debug, Default)]
pub struct Latch(CancellationToken);

impl Latch {
    pub fn set(&self) {
        self.0.cancel();
    }

    pub fn is_set(&self) -> bool {
        self.0.is_cancelled()
    }

    pub async fn wait(&self) {
        self.0.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::Latch;
    use crate::Tasks;

    #[tokio::test(start_paused = true)]
    async fn waiters_wake_in_the_order_in_which_they_came() {
        let (latch, tasks, order) = (Latch::default(), Tasks::new(), Arc::new(Mutex::new(vec![])));
        for number in 0..40 {
            let (latch, order) = (latch.clone(), order.clone());
            tasks.spawn("waiter", move |_| async move {
                latch.wait().await;
                order.lock().unwrap().push(number);
            });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!latch.is_set() && order.lock().unwrap().is_empty());
        latch.set();
        tasks.shutdown(Duration::from_secs(1)).await.unwrap();
        assert_eq!(*order.lock().unwrap(), (0..40).collect::<Vec<_>>());
    }
}

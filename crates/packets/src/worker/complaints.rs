//! What went wrong is told to whoever listens; who does not, and who does not read, misses it.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use linux::seqpacket::Connection;
use tokio::io::unix::AsyncFd;

use crate::protocol::{Part, Reply, encode};

#[derive(Default)]
pub(super) struct Complaints {
    listeners: RefCell<Vec<(Part, Weak<AsyncFd<Connection>>)>>,
}

impl Complaints {
    pub(super) fn add(&self, part: Part, listener: &Rc<AsyncFd<Connection>>) {
        let mut listeners = self.listeners.borrow_mut();
        listeners.retain(|(_, it)| it.strong_count() > 0);
        listeners.push((part, Rc::downgrade(listener)));
    }

    pub(super) fn tell(&self, part: Part, words: &str) {
        let message = encode(&Reply::Complaint(words.to_owned()));
        for (of, listener) in self.listeners.borrow().iter() {
            if let Some(listener) = listener.upgrade().filter(|_| *of == part) {
                let _ = listener.get_ref().send(&message, &[]);
            }
        }
    }
}

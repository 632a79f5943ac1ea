//! Whether the ports of the node that the pod asks for are free. Who was bound past the scheduler
//! finds out here, so that his controller can make another pod, and not wait for ever.

use api::core::pod::host_ports;

use super::{Candidate, Handler, Rejection};

pub(super) struct NodePorts;

impl Handler for NodePorts {
    fn admit(&self, candidate: &Candidate<'_>) -> Result<(), Rejection> {
        let wanted = host_ports(candidate.spec);
        let taken = &candidate.used.ports;
        if !wanted.iter().any(|it| taken.iter().any(|taken| taken.conflicts_with(it))) {
            return Ok(());
        }
        let message = "Predicate NodePorts failed: node(s) didn't have free ports for the \
                       requested pod ports";
        Err(("NodePorts".to_owned(), message.to_owned()))
    }
}

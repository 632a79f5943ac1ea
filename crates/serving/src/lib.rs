//! How every server of ours takes connections: how many, from whom, and for how long they may be
//! silent.
//!
//! Promises: a connection that says nothing is closed; the number of connections is bounded, in all
//! and per client, and where the bound is reached the oldest idle one makes room; a client that
//! reads nothing does not hold what it asked for. Knows nothing of what is served.

mod accept;
mod body;
mod gathered;
mod https;
mod limits;
mod meter;
mod room;
mod stream;

pub use accept::{Guest, accept};
pub use body::{Farewell, Patient, Peer};
pub use https::{Until, serve as serve_https, serve_while_known as serve_https_while_known};
pub use limits::{Bounds, Limits, STREAMS_DEFAULT, Share, Timeouts};
pub use meter::{Exchange, Meter, Overdue};
pub use room::Room;
pub use stream::Stream;

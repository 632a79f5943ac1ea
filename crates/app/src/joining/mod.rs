//! How a machine becomes a node of a cluster that is elsewhere: it learns whom to believe, asks for
//! certificates, keeps them and renews them. What the control plane publishes for that is here, too.

mod certificates;
mod discovery;
mod facts;
mod publish;
mod reach;
mod refusal;
mod registered;
mod request;
mod servers;
mod storage;
mod token;
mod version;

pub(crate) use certificates::{Credentials, Kept, Purpose};
pub(crate) use discovery::discover;
pub(crate) use facts::Facts;
pub(crate) use publish::{NewToken, create_token, publish};
pub(crate) use reach::check_reach;
pub(crate) use refusal::Refusal;
pub(crate) use registered::check_name;
pub(crate) use request::is_unauthorized;
pub(crate) use servers::follow_servers;
pub(crate) use storage::current as current_path;
pub(crate) use token::{JoinToken, Place, Target, parse_pin};
pub(crate) use version::check_version;

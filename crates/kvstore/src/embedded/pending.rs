//! Stands in for what the new engine brings.
use super::Embedded;
use crate::{Error, Revision, Status};
use std::path::Path;
pub struct Taken {
    pub revision: Revision,
    pub bytes: u64,
}
impl Embedded {
    pub async fn snapshot(&self, _file: &Path) -> Result<Taken, Error> {
        Err(Error::Closed)
    }
}
pub fn check(_dir: &Path) -> Result<Status, Error> {
    Err(Error::Closed)
}
pub fn check_snapshot(_file: &Path) -> Result<Status, Error> {
    Err(Error::Closed)
}
pub fn restore(_file: &Path, _dir: &Path, _at: Option<Revision>) -> Result<Status, Error> {
    Err(Error::Closed)
}

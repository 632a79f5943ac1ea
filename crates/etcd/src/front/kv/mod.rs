//! Reading and writing keys: etcd's requests as the store's, and back.

mod convert;
mod range;
mod txn;
pub(super) mod write;

use kvstore::Revision;

use super::{Front, error};
use crate::wire::messages as pb;
use crate::wire::{Code, Status};

pub(super) use convert::{entry, key_range};
pub(super) use range::{is_wide, range, range_apart};

pub(super) async fn compact(
    front: &Front,
    request: pb::CompactionRequest,
) -> Result<pb::CompactionResponse, Status> {
    let through = u64::try_from(request.revision).map_err(|_| error::compacted())?;
    let oldest = front.store.oldest();
    if oldest > Revision(1) && Revision(through) <= oldest {
        return Err(error::compacted());
    }
    // Revision 1 is the empty store: nothing lies before it.
    let through = through.max(1);
    front.store.compact(Revision(through)).await.map_err(|err| error::status(&err))?;
    Ok(pb::CompactionResponse { header: front.header(front.store.revision()) })
}

fn unexpected() -> Status {
    Status::new(Code::Internal, "etcdserver: the store answered another question")
}

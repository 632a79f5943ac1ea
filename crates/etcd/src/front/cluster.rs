//! The one member, and authentication, which is off: clients prove themselves with certificates.

use super::{Front, error};
use crate::wire::Status;
use crate::wire::messages::{
    AuthStatusRequest, AuthStatusResponse, AuthenticateRequest, AuthenticateResponse, Member,
    MemberListRequest, MemberListResponse,
};

pub(super) async fn member_list(
    front: &Front,
    _request: MemberListRequest,
) -> Result<MemberListResponse, Status> {
    let member = Member {
        id: front.member_id,
        name: front.name.clone(),
        peer_urls: front.client_urls.clone(),
        client_urls: front.client_urls.clone(),
        is_learner: false,
    };
    let header = front.header(front.store.revision());
    Ok(MemberListResponse { header, members: vec![member] })
}

pub(super) async fn auth_status(
    front: &Front,
    _request: AuthStatusRequest,
) -> Result<AuthStatusResponse, Status> {
    let header = front.header(front.store.revision());
    Ok(AuthStatusResponse { header, enabled: false, auth_revision: 1 })
}

pub(super) async fn authenticate(
    _front: &Front,
    _request: AuthenticateRequest,
) -> Result<AuthenticateResponse, Status> {
    Err(error::auth_not_enabled())
}

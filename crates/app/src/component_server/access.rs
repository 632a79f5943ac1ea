//! Who asks, and may they: certificates of the cluster's authority or tokens that the API server
//! knows, and its word on what they may do.

use apimachinery::{ApiError, User};
use authn::ClientCertificate;
use client::{Client, reviews};
use http::{Request, StatusCode, header};
use k8s_openapi::api::authorization::v1::NonResourceAttributes;
use stdx::SharedClock;

pub(super) struct Access {
    client: Client,
    clock: SharedClock,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("Unauthorized")]
    Unauthorized,
    #[error("Forbidden: \"{path}\" for user {user:?}")]
    Forbidden { user: String, path: String },
    #[error("asking the API server: {0}")]
    NoAnswer(ApiError),
}

impl Refused {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden { .. } => StatusCode::FORBIDDEN,
            Self::NoAnswer(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl Access {
    pub(super) fn new(client: Client, clock: SharedClock) -> Self {
        Self { client, clock }
    }

    /// Asked anew each time: metrics are read a few times a minute.
    pub(super) async fn validate<B>(
        &self,
        certificate: Option<&ClientCertificate>,
        request: &Request<B>,
    ) -> Result<(), Refused> {
        let user = self.authenticate(certificate, request).await?;
        let attributes = NonResourceAttributes {
            path: Some(request.uri().path().to_owned()),
            verb: Some(request.method().as_str().to_ascii_lowercase()),
        };
        let access = reviews::Access::Path(attributes);
        let is_allowed = reviews::review_access(&self.client, &user, access).await;
        if is_allowed.map_err(Refused::NoAnswer)? {
            return Ok(());
        }
        Err(Refused::Forbidden { user: user.name, path: request.uri().path().to_owned() })
    }

    async fn authenticate<B>(
        &self,
        certificate: Option<&ClientCertificate>,
        request: &Request<B>,
    ) -> Result<User, Refused> {
        if let Some(certificate) = certificate {
            let user = certificate.user(self.clock.now()).map_err(|_| Refused::Unauthorized)?;
            return Ok(User::clone(user));
        }
        let value = request.headers().get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
        let Some(value) = value else {
            // Upstream lets strangers ask; the API server decides.
            return Ok(User::new("system:anonymous", &["system:unauthenticated"]));
        };
        let token = value.split_once(' ').filter(|it| it.0.eq_ignore_ascii_case("bearer"));
        let (_, token) = token.ok_or(Refused::Unauthorized)?;
        let user = reviews::review_token(&self.client, token.trim()).await;
        user.map_err(Refused::NoAnswer)?.ok_or(Refused::Unauthorized)
    }
}

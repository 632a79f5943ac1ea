//! What every stage of the pipeline works with.

use std::sync::Arc;

use admission::Chain;
use api::{Kind, Resource};
use apimachinery::{ApiError, GroupVersionResource, User};
use authn::pki::VerifyingKey;
use authn::{Authenticated, Authenticator, Impersonation, Target};
use authz::{Attributes, Authorizer};
use lifecycle::{Readiness, Tasks};
use stdx::World;

use crate::admission_files::AdmissionFiles;
use crate::aggregated::Aggregated;
use crate::cache::{Cache, ObjectPath};
use crate::config::Config;
use crate::documents::Documents;
use crate::flow::Flow;
use crate::heavy::Heavy;
use crate::legacy_tokens::LegacyTokens;
use crate::metrics::Metrics;
use crate::registry::Registry;

use super::deleted_nodes::DeletedNodes;
use super::hooks::{Aggregator, HookSet};
use super::recent::Recent;

pub struct Core {
    pub(crate) config: Config,
    pub(crate) world: World,
    pub(crate) registry: Arc<Registry>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) admission: Chain,
    pub(crate) admission_files: AdmissionFiles,
    pub(crate) hooks: Arc<HookSet>,
    pub(crate) aggregated: Arc<Aggregated>,
    pub(crate) aggregator: Arc<dyn Aggregator>,
    pub(crate) keys: Vec<VerifyingKey>,
    pub(crate) legacy_tokens: LegacyTokens,
    pub(crate) deleted_nodes: Arc<DeletedNodes>,
    pub(crate) readiness: Readiness,
    pub(crate) flow: Flow,
    pub(crate) heavy: Heavy,
    pub(crate) recent: Recent,
    pub(crate) documents: Documents,
    pub(crate) metrics: Metrics,
    pub(crate) tasks: Tasks,
}

impl Core {
    /// Acting as somebody else: the real user needs a permission for every name it takes on.
    pub(crate) fn impersonate(
        &self,
        real: &Authenticated,
        target: &User,
    ) -> Result<Authenticated, ApiError> {
        let impersonation = Impersonation::new(Target {
            user: target.name.clone(),
            uid: target.uid.clone(),
            groups: target.groups.clone(),
            extra: target.extra.clone(),
        })?;
        for check in impersonation.checks() {
            let attributes = Attributes {
                verb: "impersonate".to_owned(),
                group: check.group.to_owned(),
                version: "v1".to_owned(),
                resource: check.resource.to_owned(),
                subresource: check.subresource.clone(),
                namespace: check.namespace.clone(),
                name: check.name.clone(),
                is_resource: true,
                ..Attributes::default()
            };
            self.authorizer.authorize(real.user(), attributes)?;
        }
        Ok(impersonation.confirm(real))
    }

    /// One object of a built-in kind, as the cache has it.
    pub(crate) fn find_shared<T: Resource>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<T>, ApiError> {
        let kind = self.kind_of::<T>();
        let path = ObjectPath::of(kind.as_ref(), namespace, name)?;
        let stored = self.cache.get(kind.as_ref(), &path);
        let missing = || ApiError::not_found(&kind.names().group_resource(), name);
        stored
            .ok_or_else(missing)?
            .shared::<T>()
            .map_err(|err| ApiError::internal("a stored object cannot be read").with_source(err))
    }

    /// The served form of a built-in kind.
    pub(crate) fn kind_of<T: Resource>(&self) -> Arc<dyn Kind> {
        let facts = T::FACTS;
        let resource = GroupVersionResource::new(facts.group, facts.version, facts.plural);
        self.registry.kinds().find(&resource).cloned().expect("built-in kinds are always served")
    }
}

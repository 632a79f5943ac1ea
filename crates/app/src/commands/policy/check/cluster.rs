//! What is read of the cluster, with the caller's rights: kinds, namespaces, objects in pages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use admission::Operation;
use admission::plugins::pod_security::MAKERS_OF_PODS;
use anyhow::{Context as _, Result, bail};
use api::apiextensions::CustomResourceDefinition;
use api::apiextensions::custom_resource::CustomKind;
use api::{Dynamic, Kind, Stored};
use apimachinery::{GroupVersionResource, Scope, User};
use client::https::Config;
use client::{Client, Discovered, ListOptions};
use k8s_openapi::api::admissionregistration::v1::{MatchResources, NamedRuleWithOperations};
use lifecycle::Tasks;
use serde_json::{Value, json};

use super::super::super::access::connect;
use super::crd::Rules;
use super::findings::Findings;
use super::history;
use super::judge::{Case, Concern, Judge};
use super::parameters::Known;
use super::plan::{self, Plan};
use super::policies::{Ground, Namespaces, Plugins, as_if, built_in};
use super::rights::Rights;

const PAGE: u64 = 500;

pub(super) struct Cluster {
    pub(super) client: Client,
    kinds: Vec<Discovered>,
    /// The only one that is looked at.
    namespace: Option<String>,
    user: User,
}

impl Cluster {
    pub(super) async fn connect(
        config: &Config,
        tasks: &Tasks,
        namespace: Option<String>,
    ) -> Result<Self> {
        let client = Client::new(connect(config, tasks)?, "xebec-policy-check");
        let kinds = client.discover().await;
        let kinds = kinds.with_context(|| format!("asking {} what it serves", config.server))?;
        let user = who_am_i(&client).await;
        Ok(Self { client, kinds, namespace, user })
    }

    pub(super) async fn check(
        &self,
        plan: Plan,
        since: Option<Duration>,
        findings: &mut Findings,
    ) -> Result<()> {
        let judge: Box<dyn Judge> = match &plan {
            Plan::Definition(crd) => Box::new(Rules::new(crd, &self.versions_of(crd).await?)),
            Plan::Policies(wanted) => {
                let concerns = self.concerns(wanted, findings).await?;
                let (kinds, given) = (self.kinds.clone(), wanted.params.clone());
                let known = Arc::new(Known::new(self.client.clone(), kinds, given));
                let ground = self.ground(concerns, &[]).await?;
                Box::new(Plugins::of_policies(wanted, known, ground))
            }
            Plan::PodSecurity { level, version } => {
                let concerns = self.makers();
                let labels = [
                    ("enforce", level),
                    ("enforce-version", version),
                    ("warn", level),
                    ("warn-version", version),
                ];
                Box::new(Plugins::of_pod_security(self.ground(concerns, &labels).await?)?)
            }
        };
        judge.notes().into_iter().for_each(|it| findings.note(it));
        for concern in judge.concerns() {
            let revision = self.check_live(judge.as_ref(), concern, findings).await?;
            if let Some(since) = since {
                history::check(self, judge.as_ref(), concern, (since, revision), findings).await?;
            }
        }
        Ok(())
    }

    /// In which namespace a kind is read; all, if it is empty.
    pub(super) fn namespace_for(&self, kind: &dyn Kind) -> &str {
        match kind.scope() {
            Scope::Namespaced => self.namespace.as_deref().unwrap_or_default(),
            Scope::Cluster => "",
        }
    }

    /// Every object that is there, page by page. The revision that they are of.
    async fn check_live(
        &self,
        judge: &dyn Judge,
        concern: &Concern,
        findings: &mut Findings,
    ) -> Result<u64> {
        let mut pages = Pages::new(self, concern);
        while let Some(items) = pages.next().await? {
            for stored in items {
                let key = &stored.meta.key;
                let (object, old) = match concern.as_if {
                    Operation::Create | Operation::Connect => (Some(&stored.bytes), None),
                    Operation::Update => (Some(&stored.bytes), Some(&stored.bytes)),
                    Operation::Delete => (None, Some(&stored.bytes)),
                };
                let verdicts = judge
                    .judge(Case {
                        concern,
                        operation: concern.as_if,
                        namespace: &key.namespace,
                        name: &key.name,
                        object,
                        old,
                    })
                    .await?;
                let kind = &concern.kind.names().kind;
                findings.add((kind, &key.namespace, &key.name), None, verdicts);
            }
        }
        Ok(pages.revision)
    }

    async fn ground(
        &self,
        concerns: Vec<Concern>,
        pod_security: &[(&str, &String)],
    ) -> Result<Ground> {
        let namespaces = self.namespaces(pod_security).await?;
        let rights = Rights::new(self.client.clone(), &self.user);
        Ok(Ground { namespaces, rights, user: self.user.clone(), concerns })
    }

    /// As if they asked for a Pod Security level, if one is given.
    async fn namespaces(&self, pod_security: &[(&str, &String)]) -> Result<Namespaces> {
        let api = self.client.dynamic(GroupVersionResource::new("", "v1", "namespaces"));
        let list = api.list("", ListOptions::default()).await;
        let list = list.context("listing namespaces, whose labels and fields policies see")?;
        let mut all = BTreeMap::new();
        for stored in list.items {
            let name = stored.meta.key.name.clone();
            let mut meta = stored.meta.as_ref().clone();
            if !pod_security.is_empty() {
                let key = |it: &str| format!("pod-security.kubernetes.io/{it}");
                let asked = pod_security.iter().map(|(it, value)| (key(it), (*value).clone()));
                meta.labels = asked.collect();
            }
            all.insert(name, Arc::new(Stored::new(meta, stored.bytes.clone())));
        }
        Ok(Namespaces(all))
    }

    fn makers(&self) -> Vec<Concern> {
        let is_maker = |it: &&Discovered| {
            let place = (it.resource.group.as_str(), it.resource.resource.as_str());
            place == ("", "pods") || MAKERS_OF_PODS.contains(&place)
        };
        let makers = self.kinds.iter().filter(is_maker);
        let concern = |it: &Discovered| {
            let kind = built_in(&it.resource)?;
            Some(Concern { resource: it.resource.clone(), kind, as_if: Operation::Create })
        };
        makers.filter_map(concern).collect()
    }

    /// The served versions of a definition.
    async fn versions_of(&self, crd: &CustomResourceDefinition) -> Result<Vec<String>> {
        let live = self.definition(&crd.spec.group, &crd.spec.names.plural).await?;
        let versions = live.iter().flat_map(|it| &it.spec.versions);
        Ok(versions.filter(|it| it.served).map(|it| it.name.clone()).collect())
    }

    async fn definition(
        &self,
        group: &str,
        plural: &str,
    ) -> Result<Option<CustomResourceDefinition>> {
        let api = self.client.api::<CustomResourceDefinition>();
        match api.get("", &format!("{plural}.{group}")).await {
            Ok(crd) => Ok(Some(crd.as_ref().clone())),
            Err(err) if err.is_not_found() => Ok(None),
            Err(err) => {
                Err(err).with_context(|| format!("reading the definition of {plural}.{group}"))
            }
        }
    }

    /// What policies are for, of what the cluster serves.
    async fn concerns(
        &self,
        wanted: &plan::Policies,
        findings: &mut Findings,
    ) -> Result<Vec<Concern>> {
        let validating = wanted.validating.iter().filter_map(|it| it.spec.as_ref());
        let mutating = wanted.mutating.iter().filter_map(|it| it.spec.as_ref());
        let matches: Vec<&MatchResources> = validating
            .filter_map(|it| it.match_constraints.as_ref())
            .chain(mutating.filter_map(|it| it.match_constraints.as_ref()))
            .collect();
        let rules: Vec<&NamedRuleWithOperations> =
            matches.iter().flat_map(|it| it.resource_rules.iter().flatten()).collect();
        let mut concerns: Vec<Concern> = Vec::new();
        for found in &self.kinds {
            let Some((version, as_if)) = rules.iter().find_map(|it| seen_by(it, found)) else {
                continue;
            };
            if !found.verbs.iter().any(|it| it == "list") {
                continue;
            }
            let mut resource = found.resource.clone();
            resource.version = version;
            match self.kind(&resource).await? {
                Some(kind) => concerns.push(Concern { resource, kind, as_if }),
                None => findings.note(format!(
                    "{} of {} are served by another server: they are not judged",
                    resource.resource, resource.group
                )),
            }
        }
        let has_parts =
            rules.iter().flat_map(|it| it.resources.iter().flatten()).any(|it| it.contains('/'));
        if has_parts {
            findings.note("subresources are not judged: only objects can be read again");
        }
        if concerns.is_empty() {
            bail!("the cluster serves nothing that spec.matchConstraints.resourceRules is for");
        }
        Ok(concerns)
    }

    async fn kind(&self, resource: &GroupVersionResource) -> Result<Option<Arc<dyn Kind>>> {
        if let Some(kind) = built_in(resource) {
            return Ok(Some(kind));
        }
        let crd = self.definition(&resource.group, &resource.resource).await?;
        let version = crd.as_ref().and_then(|crd| {
            let mut versions = crd.spec.versions.iter();
            Some((crd, versions.find(|it| it.name == resource.version)?))
        });
        Ok(version.map(|(crd, version)| Arc::new(CustomKind::new(crd, version)) as Arc<dyn Kind>))
    }
}

/// In which version a rule sees a resource, and as what an object of it is judged.
fn seen_by(rule: &NamedRuleWithOperations, found: &Discovered) -> Option<(String, Operation)> {
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        list.iter().flatten().any(|it| it == wanted || it == "*")
    };
    let is_named = has(&rule.resources, &found.resource.resource) || has(&rule.resources, "*/*");
    if !is_named || !has(&rule.api_groups, &found.resource.group) {
        return None;
    }
    let as_if = as_if(rule.operations.as_deref().unwrap_or_default())?;
    let version = match has(&rule.api_versions, &found.resource.version) {
        true => found.resource.version.clone(),
        // The same objects, as the policy wants to see them.
        false => rule.api_versions.iter().flatten().next()?.clone(),
    };
    Some((version, as_if))
}

async fn who_am_i(client: &Client) -> User {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let resource = GroupVersionResource::new("authentication.k8s.io", "v1", "selfsubjectreviews");
    let answer = match Dynamic::from_value(review) {
        Ok(review) => client.dynamic(resource).create(review).await.ok(),
        Err(_) => None,
    };
    let answer: Value =
        answer.and_then(|it| serde_json::from_slice(&it.bytes).ok()).unwrap_or_default();
    let info = &answer["status"]["userInfo"];
    let groups: Vec<String> = serde_json::from_value(info["groups"].clone()).unwrap_or_default();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    User::new(info["username"].as_str().unwrap_or("system:unknown"), &groups)
}

/// The objects of a kind, now or at a revision.
pub(super) struct Pages<'a> {
    cluster: &'a Cluster,
    concern: &'a Concern,
    at: Option<u64>,
    is_beyond_horizon: bool,
    token: Option<String>,
    is_over: bool,
    pub(super) revision: u64,
}

impl<'a> Pages<'a> {
    /// As they are now.
    pub(super) fn new(cluster: &'a Cluster, concern: &'a Concern) -> Self {
        let (at, token) = (None, None);
        Self { cluster, concern, at, is_beyond_horizon: false, token, is_over: false, revision: 0 }
    }

    /// As they were at a revision.
    pub(super) fn at(self, revision: u64, is_beyond_horizon: bool) -> Self {
        Self { at: Some(revision), is_beyond_horizon, ..self }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Vec<Arc<Stored>>>> {
        if self.is_over {
            return Ok(None);
        }
        let at = self.at.filter(|_| self.token.is_none());
        let options = ListOptions {
            limit: Some(PAGE),
            continue_token: self.token.take(),
            resource_version: at.map(|it| it.to_string()),
            resource_version_match: at.map(|_| "Exact".to_owned()),
            is_beyond_horizon: self.is_beyond_horizon,
            ..ListOptions::default()
        };
        let api = self.cluster.client.dynamic(self.concern.resource.clone());
        let namespace = self.cluster.namespace_for(self.concern.kind.as_ref());
        let list = api.list(namespace, options).await;
        let list = list.with_context(|| format!("listing {}", self.concern.resource.resource))?;
        self.token = list.continue_token.filter(|it| !it.is_empty());
        self.is_over = self.token.is_none();
        self.revision = list.resource_version.parse().unwrap_or_default();
        Ok(Some(list.items))
    }
}

//! Kinds that are asked and answered but never stored: access reviews and token reviews.

use api::Resource;
use api::authentication::{SelfSubjectReview, TokenReview};
use api::authorization::{
    LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
};
use apimachinery::{ApiError, FieldErrors, GroupKind, User};
use authz::Attributes;
use k8s_openapi::api::authentication::v1::{SelfSubjectReviewStatus, TokenReviewStatus, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, NonResourceRule, ResourceAttributes, ResourceRule,
    SubjectAccessReviewSpec, SubjectAccessReviewStatus, SubjectRulesReviewStatus,
};

use crate::pipeline::hooks::{Acting, Hooks, Of};
use crate::pipeline::{self, Core, Outcome, Request, admit_action, body_as, loose};

/// Admits a review, and answers it.
type Review = for<'a> fn(&'a Core, &'a mut Request) -> Acting<'a>;

/// What one kind of review answers.
type Judge<T> = fn(&Core, &Request, T) -> T;

pub(crate) struct Reviews {
    of: &'static [Of],
    review: Review,
}

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// Each kind of review with its answer.
const ALL: &[(&[Of], Review)] = &[
    (&[(AUTHENTICATION, "selfsubjectreviews")], |core, it| review(core, it, self_subject)),
    (&[(AUTHENTICATION, "tokenreviews")], |core, it| review(core, it, token)),
    (&[(AUTHORIZATION, "localsubjectaccessreviews")], |core, it| review(core, it, local_access)),
    (&[(AUTHORIZATION, "selfsubjectaccessreviews")], |core, it| review(core, it, self_access)),
    (&[(AUTHORIZATION, "selfsubjectrulesreviews")], |core, it| review(core, it, self_rules)),
    (&[(AUTHORIZATION, "subjectaccessreviews")], |core, it| review(core, it, access)),
];

pub(crate) fn all() -> impl Iterator<Item = Reviews> {
    ALL.iter().map(|(of, review)| Reviews { of, review: *review })
}

impl Hooks for Reviews {
    fn of(&self) -> &'static [Of] {
        self.of
    }

    fn act<'a>(&'a self, core: &'a Core, request: &'a mut Request) -> Acting<'a> {
        (self.review)(core, request)
    }
}

fn review<'a, T: Resource>(
    core: &'a Core,
    request: &'a mut Request,
    judge: Judge<T>,
) -> Acting<'a> {
    Box::pin(async move {
        let mut review: T = body_as(request)?;
        refuse_incomplete(&review)?;
        validate(request, &mut review)?;
        let (review, valid) = admit_action(core, request, review).await?;
        let review = judge(core, request, review);
        valid.keep();
        Ok((Outcome::Object(loose(Resource::encode(&review))), 201))
    })
}

/// Upstream names the group of what it refuses, and not the kind.
fn validate<T: Resource>(request: &Request, review: &mut T) -> Result<(), ApiError> {
    let metadata = review.metadata_mut();
    if !request.namespace().is_empty() && metadata.namespace.is_none() {
        metadata.namespace = Some(request.namespace().to_owned());
    }
    let mut errors = FieldErrors::new();
    review.validate(&mut errors);
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind { group: T::FACTS.group.to_owned(), kind: String::new() };
    Err(ApiError::invalid(&kind, "", &errors))
}

/// Questions that are none: they have no answer, right or wrong.
fn refuse_incomplete(review: &dyn std::any::Any) -> Result<(), ApiError> {
    if review.downcast_ref::<TokenReview>().is_some_and(|it| it.spec.token.is_empty()) {
        let why = "token is required for TokenReview in authentication";
        return Err(ApiError::bad_request(why));
    }
    let rules = review.downcast_ref::<SelfSubjectRulesReview>();
    if rules.is_some_and(|it| it.spec.namespace.as_deref().unwrap_or_default().is_empty()) {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    Ok(())
}

fn access(core: &Core, _request: &Request, mut review: SubjectAccessReview) -> SubjectAccessReview {
    review.status = Some(review_spec(core, &review.spec));
    review
}

fn local_access(
    core: &Core,
    _request: &Request,
    mut review: LocalSubjectAccessReview,
) -> LocalSubjectAccessReview {
    review.status = Some(review_spec(core, &review.spec));
    review
}

fn self_access(
    core: &Core,
    request: &Request,
    mut review: SelfSubjectAccessReview,
) -> SelfSubjectAccessReview {
    let attributes = attributes_of(
        review.spec.resource_attributes.as_ref(),
        review.spec.non_resource_attributes.as_ref(),
    );
    review.status = Some(decide(core, request.user(), &attributes));
    review
}

/// The answer does not repeat the question.
fn self_rules(
    core: &Core,
    request: &Request,
    review: SelfSubjectRulesReview,
) -> SelfSubjectRulesReview {
    let namespace = review.spec.namespace.unwrap_or_default();
    let status = Some(rules(core, request.user(), &namespace));
    SelfSubjectRulesReview { status, ..SelfSubjectRulesReview::default() }
}

fn self_subject(
    core: &Core,
    request: &Request,
    mut review: SelfSubjectReview,
) -> SelfSubjectReview {
    review.metadata.creation_timestamp = Some(pipeline::now(core));
    let user_info = Some(user_info(request.user()));
    review.status = Some(SelfSubjectReviewStatus { user_info });
    review
}

fn token(core: &Core, _request: &Request, mut review: TokenReview) -> TokenReview {
    review.status = Some(review_token(core, &review));
    review
}

fn attributes_of(
    resource: Option<&ResourceAttributes>,
    path: Option<&NonResourceAttributes>,
) -> Attributes {
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    match (resource, path) {
        (Some(it), _) => Attributes {
            verb: text(&it.verb),
            group: text(&it.group),
            version: text(&it.version),
            resource: text(&it.resource),
            subresource: text(&it.subresource),
            namespace: text(&it.namespace),
            name: text(&it.name),
            is_resource: true,
            ..Attributes::default()
        },
        (None, Some(it)) => Attributes::path(text(&it.verb), text(&it.path)),
        (None, None) => Attributes::default(),
    }
}

fn review_spec(core: &Core, spec: &SubjectAccessReviewSpec) -> SubjectAccessReviewStatus {
    let user = User {
        name: spec.user.clone().unwrap_or_default(),
        uid: spec.uid.clone().unwrap_or_default(),
        groups: spec.groups.clone().unwrap_or_default(),
        extra: spec.extra.clone().unwrap_or_default(),
    };
    let attributes =
        attributes_of(spec.resource_attributes.as_ref(), spec.non_resource_attributes.as_ref());
    decide(core, &user, &attributes)
}

fn decide(core: &Core, user: &User, attributes: &Attributes) -> SubjectAccessReviewStatus {
    let decision = core.authorizer.decide(user, attributes);
    SubjectAccessReviewStatus {
        allowed: decision.is_allowed(),
        reason: Some(decision.reason().to_owned()).filter(|it| !it.is_empty()),
        ..SubjectAccessReviewStatus::default()
    }
}

fn rules(core: &Core, user: &User, namespace: &str) -> SubjectRulesReviewStatus {
    let rules = core.authorizer.rules_for(user, namespace);
    let (paths, resources): (Vec<_>, Vec<_>) =
        rules.rules.into_iter().partition(|it| it.non_resource_urls.is_some());
    SubjectRulesReviewStatus {
        incomplete: rules.is_incomplete,
        evaluation_error: None,
        non_resource_rules: paths
            .into_iter()
            .map(|it| NonResourceRule { non_resource_urls: it.non_resource_urls, verbs: it.verbs })
            .collect(),
        resource_rules: resources
            .into_iter()
            .map(|it| ResourceRule {
                api_groups: it.api_groups,
                resource_names: it.resource_names,
                resources: it.resources,
                verbs: it.verbs,
            })
            .collect(),
    }
}

fn user_info(user: &User) -> UserInfo {
    UserInfo {
        username: Some(user.name.clone()),
        uid: Some(user.uid.clone()).filter(|it| !it.is_empty()),
        groups: Some(user.groups.clone()),
        extra: Some(user.extra.clone()).filter(|it| !it.is_empty()),
    }
}

fn review_token(core: &Core, review: &TokenReview) -> TokenReviewStatus {
    let audiences = review.spec.audiences.clone().unwrap_or_default();
    match core.authenticator.review(&review.spec.token, &audiences) {
        Ok((user, audiences)) => TokenReviewStatus {
            authenticated: Some(true),
            user: Some(user_info(&user)),
            audiences: Some(audiences),
            error: None,
        },
        Err(err) => TokenReviewStatus {
            authenticated: Some(false),
            error: Some(format!("[invalid bearer token, {err}]")),
            ..TokenReviewStatus::default()
        },
    }
}

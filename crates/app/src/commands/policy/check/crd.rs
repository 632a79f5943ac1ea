//! Objects of a definition, held against the schema and the rules that it would have.

use std::sync::Arc;

use admission::Operation;
use anyhow::Result;
use api::apiextensions::CustomResourceDefinition;
use api::apiextensions::custom_resource::CustomKind;
use api::{Kind, Part};
use apimachinery::{FieldErrors, GroupVersionResource};
use futures_util::future::BoxFuture;

use super::findings::Verdict;
use super::judge::{Case, Concern, Judge};

pub(super) struct Rules {
    concerns: Vec<Concern>,
}

impl Rules {
    /// `served`: the versions of the resource that there are to read.
    pub(super) fn new(crd: &CustomResourceDefinition, served: &[String]) -> Self {
        let versions = crd.spec.versions.iter().filter(|it| it.served);
        let concern = |version| {
            let kind: Arc<dyn Kind> = Arc::new(CustomKind::new(crd, version));
            let (group, plural) = (&crd.spec.group, &crd.spec.names.plural);
            let resource = GroupVersionResource::new(group, &version.name, plural);
            Concern { resource, kind, as_if: Operation::Create }
        };
        // One is enough: it is the same objects in all.
        let mut readable = versions.filter(|it| served.contains(&it.name));
        let stored = readable.clone().find(|it| it.storage);
        let concerns = stored.or_else(|| readable.next()).map(concern).into_iter().collect();
        Self { concerns }
    }
}

impl Judge for Rules {
    fn concerns(&self) -> &[Concern] {
        &self.concerns
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "objects are judged as if they were created anew; an update that leaves alone what is \
             wrong already is let through (ratcheting)"
                .to_owned(),
        ];
        if self.concerns.is_empty() {
            notes.push(
                "the cluster serves no version of this definition: there are no objects".to_owned(),
            );
        }
        notes
    }

    fn judge<'a>(&'a self, case: Case<'a>) -> BoxFuture<'a, Result<Vec<Verdict>>> {
        Box::pin(std::future::ready(Ok(judge(&case))))
    }
}

fn judge(case: &Case<'_>) -> Vec<Verdict> {
    let kind = case.concern.kind.as_ref();
    let refused =
        |rule: &str, message: String| Verdict { rule: rule.to_owned(), message, is_refused: true };
    let Some(object) = case.object else { return Vec::new() };
    let mut object = match kind.decode(object) {
        Ok(object) => object,
        Err(err) => return vec![refused("-", err.to_string())],
    };
    kind.apply_defaults(object.as_mut());
    let mut errors = FieldErrors::new();
    kind.validate(object.as_ref(), &mut errors);
    match case.old.map(|it| kind.decode(it)) {
        Some(Ok(old)) => {
            kind.validate_update(object.as_ref(), old.as_ref(), Part::Main, &mut errors);
        }
        Some(Err(_)) | None => kind.validate_create(object.as_ref(), &mut errors),
    }
    errors.iter().map(|it| refused(it.path.as_str(), it.message.clone())).collect()
}

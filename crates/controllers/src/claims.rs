//! Who belongs to whom: an owner with a selector takes what matches and has no owner, and lets go
//! of what does not match any more. Pure.

use std::sync::Arc;

use api::Identified;
use apimachinery::selector::Labels;

/// Who claims.
pub(crate) struct Claimant<'a> {
    pub uid: &'a str,
    pub selector: &'a Labels,
    /// It takes and lets go of nothing any more: that is the garbage collector's.
    pub is_deleting: bool,
}

#[derive(Debug)]
pub(crate) struct Claims<T> {
    /// Its own, which match.
    pub owned: Vec<Arc<T>>,
    /// Nobody's, which match.
    pub adopt: Vec<Arc<T>>,
    /// Its own, which do not match.
    pub release: Vec<Arc<T>>,
}

impl<T: Identified> Claims<T> {
    /// Only what is a member for another reason, too: the owner lets go of the rest.
    pub(crate) fn narrowed(self, is_deleting: bool, is_member: impl Fn(&T) -> bool) -> Self {
        let (owned, strangers): (Vec<_>, Vec<_>) =
            self.owned.into_iter().partition(|it| is_member(it));
        let mut release = self.release;
        if !is_deleting {
            release.extend(strangers);
        }
        let adopt = self.adopt.into_iter().filter(|it| is_member(it)).collect();
        Self { owned, adopt, release }
    }
}

impl Claimant<'_> {
    pub(crate) fn matches<T: Identified>(&self, object: &T) -> bool {
        self.selector.matches_with(|name| object.label(name))
    }

    pub(crate) fn claim<'a, T: Identified>(
        &self,
        candidates: impl IntoIterator<Item = &'a Arc<T>>,
    ) -> Claims<T> {
        let mut claims = Claims { owned: Vec::new(), adopt: Vec::new(), release: Vec::new() };
        for object in candidates {
            let is_match = self.matches(&**object);
            match object.controller() {
                Some(owner) if owner.uid != self.uid => {}
                Some(_) if is_match => claims.owned.push(object.clone()),
                Some(_) if !self.is_deleting => claims.release.push(object.clone()),
                None if is_match && !self.is_deleting && !object.is_deleting() => {
                    claims.adopt.push(object.clone());
                }
                _ => {}
            }
        }
        claims
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::core::config_map::ConfigMap;
    use apimachinery::selector::Labels;
    use proptest::prelude::*;
    use reconcile::testing::converges;
    use serde_json::json;

    use super::{Claimant, Claims};

    /// `name owner app`, `-` for no owner; `!` at the end when it is being deleted.
    fn object(text: &str) -> Arc<ConfigMap> {
        let words: Vec<&str> = text.trim_end_matches('!').split(' ').collect();
        let mut meta = json!({"name": words[0], "labels": {"app": words[2]}});
        if words[1] != "-" {
            let owner = json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": words[1], "controller": true});
            meta["ownerReferences"] = json!([owner]);
        }
        if text.ends_with('!') {
            meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Arc::new(serde_json::from_value(json!({"metadata": meta})).unwrap())
    }

    fn claim(objects: &[Arc<ConfigMap>], is_deleting: bool) -> Claims<ConfigMap> {
        let selector = Labels::parse("app=web").unwrap();
        Claimant { uid: "me", selector: &selector, is_deleting }.claim(objects)
    }

    fn render(claims: &Claims<ConfigMap>) -> String {
        let names = |verb: &str, objects: &[Arc<ConfigMap>]| -> Vec<String> {
            objects
                .iter()
                .map(|it| format!("{verb} {}", it.metadata.name.as_deref().unwrap()))
                .collect()
        };
        let all = [
            names("own", &claims.owned),
            names("adopt", &claims.adopt),
            names("release", &claims.release),
        ];
        all.concat().join(", ")
    }

    fn check(objects: &[&str], is_deleting: bool, expected: &str) {
        let objects: Vec<Arc<ConfigMap>> = objects.iter().map(|it| object(it)).collect();
        assert_eq!(render(&claim(&objects, is_deleting)), expected);
    }

    #[test]
    fn what_matches_is_taken_and_what_does_not_is_let_go() {
        let all =
            ["a me web", "b - web", "c me db", "d - db", "e you web", "f - web!", "g me web!"];
        check(&all, false, "own a, own g, adopt b, release c");
    }

    #[test]
    fn who_is_being_deleted_keeps_what_it_has() {
        check(&["a me web", "b - web", "c me db"], true, "own a");
    }

    fn any_object() -> impl Strategy<Value = String> {
        "(me|you|-) (web|db)!?"
    }

    proptest! {
        #[test]
        fn one_round_of_claims_is_enough(texts in prop::collection::vec(any_object(), 0..8), is_deleting: bool) {
            let objects: Vec<Arc<ConfigMap>> =
                texts.iter().enumerate().map(|(n, it)| object(&format!("n{n} {it}"))).collect();
            let rested = converges(
                |objects: &Vec<Arc<ConfigMap>>| {
                    let claims = claim(objects, is_deleting);
                    let changes = claims.adopt.into_iter().map(|it| (true, it));
                    changes.chain(claims.release.into_iter().map(|it| (false, it))).collect()
                },
                |objects, (is_adopted, changed)| {
                    let object = objects.iter_mut().find(|it| it.metadata.name == changed.metadata.name).unwrap();
                    let owners = is_adopted.then(|| self::object("x me web").metadata.owner_references.clone());
                    Arc::make_mut(object).metadata.owner_references = owners.flatten();
                },
                objects,
                1,
            );
            rested.unwrap();
        }
    }
}

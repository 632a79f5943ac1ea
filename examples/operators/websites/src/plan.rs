//! What is left to do for a website. Pure.

use apimachinery::ObjectKey;
use serde_json::{Value, json};

use crate::objects::{KIND, Pages, Website};

#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    /// To be applied: fields that others set on the ConfigMap stay.
    WritePages(Value),
    /// A merge patch of the status.
    Report(Value),
}

/// The ConfigMap of a website.
pub(crate) fn map_of(site: &ObjectKey) -> ObjectKey {
    ObjectKey::new(site.namespace.as_str(), format!("{}-pages", site.name))
}

pub(crate) fn plan(site: &Website, pages: Option<&Pages>) -> Vec<Action> {
    let mut actions = Vec::new();
    if site.meta.is_deleting {
        return actions;
    }
    let is_current =
        |it: &Pages| it.site().as_ref() == Some(&site.meta.key) && it.data == site.pages;
    if !pages.is_some_and(is_current) {
        actions.push(Action::WritePages(config_map(site)));
    }
    if site.n_reported != Some(site.pages.len()) {
        actions.push(Action::Report(json!({ "status": { "pages": site.pages.len() } })));
    }
    actions
}

fn config_map(site: &Website) -> Value {
    let key = map_of(&site.meta.key);
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "ownerReferences": [{
                "apiVersion": "example.com/v1",
                "kind": KIND,
                "name": site.meta.key.name,
                "uid": site.meta.uid,
                "controller": true,
            }],
        },
        "data": site.pages,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api::{Meta, Stored, View};
    use apimachinery::ObjectKey;
    use serde_json::Value;

    use super::{Action, map_of, plan};
    use crate::objects::{Pages, Website};

    fn pages(names: &str) -> BTreeMap<String, String> {
        names.split_whitespace().map(|it| (it.to_owned(), "text".to_owned())).collect()
    }

    fn site(names: &str, n_reported: Option<usize>) -> Website {
        let meta = Meta { key: ObjectKey::new("default", "home"), ..Meta::default() };
        Website { meta: meta.into(), pages: pages(names), n_reported }
    }

    /// The ConfigMap as the server would give it back.
    fn written(value: &Value) -> Pages {
        let owner_references = value["metadata"]["ownerReferences"].clone();
        let meta = Meta {
            key: map_of(&ObjectKey::new("default", "home")),
            owner_references: serde_json::from_value(owner_references).unwrap(),
            ..Meta::default()
        };
        Pages::read(&Stored::new(meta, value.to_string().into())).unwrap()
    }

    fn check(site: &Website, map: Option<&Pages>, expected: &[&str]) -> Vec<Action> {
        let actions = plan(site, map);
        let said: Vec<String> = actions
            .iter()
            .map(|it| match it {
                Action::WritePages(map) => format!("write {}", map["data"]),
                Action::Report(status) => format!("report {}", status["status"]["pages"]),
            })
            .collect();
        assert_eq!(said, expected);
        actions
    }

    #[test]
    fn pages_are_written_once_and_reported() {
        let new = site("a b", None);
        let actions = check(&new, None, &[r#"write {"a":"text","b":"text"}"#, "report 2"]);
        let [Action::WritePages(map), _] = &actions[..] else { panic!("{actions:?}") };
        let map = written(map);
        check(&site("a b", Some(2)), Some(&map), &[]);
        check(&site("a", Some(2)), Some(&map), &[r#"write {"a":"text"}"#, "report 1"]);
    }

    #[test]
    fn a_map_of_somebody_else_is_taken_over_and_a_website_that_goes_is_left_alone() {
        let foreign = Pages { data: pages("a"), ..Pages::default() };
        check(&site("a", Some(1)), Some(&foreign), &[r#"write {"a":"text"}"#]);
        let mut going = site("a", None);
        let meta = Meta { is_deleting: true, ..Meta::clone(&going.meta) };
        going.meta = meta.into();
        check(&going, None, &[]);
    }
}

//! Query parameters and delete options.

use std::num::{IntErrorKind, ParseIntError};

use apimachinery::validation::validate_field_manager;
use apimachinery::{ApiError, FieldErrors, GroupKind, Path};
use client::{DeleteOptions, ListOptions, Preconditions, Propagation, Verb, WriteOptions};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions as WireOptions;
use percent_encoding::percent_decode_str;
use serde_json::error::Category;

use crate::pipeline::json_error;

/// Whether the client asked, in the old way, for dependents to go first: then 202 says that the
/// object is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits(pub(crate) bool);

#[derive(Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let decode =
            |it: &str| percent_decode_str(&it.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = text.unwrap_or_default().split('&').filter(|it| !it.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key), decode(value))
                })
                .collect(),
        )
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|it| it.0 == key).map(|it| it.1.as_str())
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |it| it.0 == key).map(|it| it.1.as_str())
    }

    fn text(&self, key: &str) -> Option<String> {
        self.get(key).filter(|it| !it.is_empty()).map(str::to_owned)
    }

    /// As upstream: whatever is not `false` or `0`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.optional_flag(key) == Some(true)
    }

    fn optional_flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|it| it != "0" && !it.eq_ignore_ascii_case("false"))
    }

    /// An int64, as upstream reads every number.
    fn int(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(key).filter(|it| !it.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|err: ParseIntError| {
            let why = match err.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
        })
    }

    /// What is less than nothing is nothing.
    fn number(&self, key: &str) -> Result<Option<u64>, ApiError> {
        Ok(self.int(key)?.map(|it| it.max(0).cast_unsigned()))
    }

    pub(crate) fn list_options(&self) -> Result<ListOptions, ApiError> {
        Ok(ListOptions {
            label_selector: self.text("labelSelector"),
            field_selector: self.text("fieldSelector"),
            limit: self.number("limit")?,
            continue_token: self.text("continue"),
            resource_version: self.text("resourceVersion"),
            resource_version_match: self.text("resourceVersionMatch"),
            send_initial_events: self.optional_flag("sendInitialEvents"),
            allow_watch_bookmarks: self.flag("allowWatchBookmarks"),
            timeout_seconds: self.number("timeoutSeconds")?,
            is_beyond_horizon: false,
        })
    }

    /// Of verbs that write; those of DELETE are in its own options.
    pub(crate) fn write_options(&self, verb: Verb) -> Result<WriteOptions, ApiError> {
        let kind = match verb {
            Verb::Create => "CreateOptions",
            Verb::Update => "UpdateOptions",
            Verb::Patch => "PatchOptions",
            Verb::Delete | Verb::DeleteCollection | Verb::Get | Verb::List => {
                return Ok(WriteOptions::default());
            }
            Verb::Watch | Verb::Options => return Ok(WriteOptions::default()),
        };
        let manager = self.text("fieldManager");
        let validation = self.text("fieldValidation");
        let mut errors = FieldErrors::new();
        if let Some(manager) = &manager {
            validate_field_manager(manager, &Path::new("fieldManager"), &mut errors);
        }
        let is_dry_run = self.dry_run(&mut errors);
        if let Some(policy) = validation.as_deref()
            && !matches!(policy, "Ignore" | "Warn" | "Strict")
        {
            let path = Path::new("fieldValidation");
            errors.not_supported(&path, policy, &["", "Ignore", "Strict", "Warn"]);
        }
        refuse(kind, &errors)?;
        Ok(WriteOptions {
            dry_run: is_dry_run,
            field_manager: manager,
            field_validation: validation,
            force: self.flag("force"),
        })
    }

    fn dry_run(&self, errors: &mut FieldErrors) -> bool {
        let values: Vec<&str> = self.all("dryRun").collect();
        validate_dry_run(&values, errors);
        !values.is_empty()
    }

    /// From the body if there is one, else from parameters.
    pub(crate) fn delete_options(&self, body: &[u8]) -> Result<(DeleteOptions, Waits), ApiError> {
        let wire: WireOptions = if body.is_empty() {
            WireOptions {
                grace_period_seconds: self.int("gracePeriodSeconds")?,
                propagation_policy: self.text("propagationPolicy"),
                orphan_dependents: self.optional_flag("orphanDependents"),
                ..WireOptions::default()
            }
        } else {
            serde_json::from_slice(body).map_err(|err| {
                let why = json_error(&err);
                ApiError::bad_request(match err.classify() {
                    Category::Data => format!("DeleteOptions cannot be decoded: {why}"),
                    _ => format!("couldn't get version/kind; json parse error: {why}"),
                })
            })?
        };
        validate_delete(&wire)?;
        let mut errors = FieldErrors::new();
        let is_dry_run =
            self.dry_run(&mut errors) || wire.dry_run.as_ref().is_some_and(|it| !it.is_empty());
        refuse("DeleteOptions", &errors)?;
        let preconditions = wire.preconditions.unwrap_or_default();
        let propagation = match (wire.propagation_policy.as_deref(), wire.orphan_dependents) {
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
            (None | Some(_), _) => None,
        };
        let waits = Waits(wire.orphan_dependents == Some(false));
        let options = DeleteOptions {
            grace_period_seconds: wire.grace_period_seconds,
            propagation,
            preconditions: Preconditions {
                uid: preconditions.uid,
                resource_version: preconditions.resource_version,
            },
            dry_run: is_dry_run,
        };
        Ok((options, waits))
    }
}

fn refuse(kind: &str, errors: &FieldErrors) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind { group: "meta.k8s.io".into(), kind: kind.into() };
    Err(ApiError::invalid(&kind, "", errors))
}

fn validate_dry_run(values: &[&str], errors: &mut FieldErrors) {
    if values.iter().any(|it| *it != "All") {
        errors.not_supported(&Path::new("dryRun"), values.to_vec(), &["All"]);
    }
}

fn validate_delete(wire: &WireOptions) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let path = Path::new("propagationPolicy");
    match wire.propagation_policy.as_deref() {
        Some(policy) if wire.orphan_dependents.is_some() => {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.invalid(&path, policy, why);
        }
        Some("Foreground" | "Background" | "Orphan") | None => {}
        Some(other) => {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            errors.not_supported_as_listed(&path, other, &known);
        }
    }
    let dry_run: Vec<&str> = wire.dry_run.iter().flatten().map(String::as_str).collect();
    validate_dry_run(&dry_run, &mut errors);
    refuse("DeleteOptions", &errors)
}

#[cfg(test)]
mod tests {
    use super::Query;

    #[test]
    fn numbers_are_upstream_s_or_refused() {
        let seconds = |text: &str| {
            let query = Query::parse(Some(&format!("timeoutSeconds={text}")));
            query.list_options().map(|it| it.timeout_seconds).map_err(|it| it.message().to_owned())
        };
        assert_eq!(seconds(""), Ok(None));
        assert_eq!(seconds("7"), Ok(Some(7)));
        assert_eq!(seconds("-7"), Ok(Some(0)));
        assert_eq!(seconds("9223372036854775807"), Ok(Some(9_223_372_036_854_775_807)));
        for (text, why) in
            [("18446744073709551615", "value out of range"), ("1s", "invalid syntax")]
        {
            let expected = format!("strconv.ParseInt: parsing {text:?}: {why}");
            assert_eq!(seconds(text), Err(expected));
        }
        let grace = |text: &str| Query::parse(Some(text)).delete_options(b"").map(|_| ());
        assert!(grace("gracePeriodSeconds=x").is_err());
        assert!(grace("gracePeriodSeconds=9223372036854775807").is_ok());
    }
}

//! Bootstrap tokens: who comes with one is nobody but somebody who may ask to become a node. One holds
//! as long as its Secret says so.

use api::core::Secret;
use apimachinery::{ObjectKey, User};
use jiff::Timestamp;

use crate::authenticator::Unauthorized;
use crate::legacy::is_same;

const NAMESPACE: &str = "kube-system";
const SECRET_PREFIX: &str = "bootstrap-token-";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const USER_PREFIX: &str = "system:bootstrap:";
/// Everybody with such a token is in it; other groups that one may name begin with it.
pub const GROUP: &str = "system:bootstrappers";
const GROUP_SUFFIX_MAX: usize = 256;
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// `id.secret`, well-formed.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapToken {
    pub id: String,
    pub secret: String,
}

impl std::fmt::Debug for BootstrapToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secret stays out of logs.
        f.debug_struct("BootstrapToken").field("id", &self.id).finish_non_exhaustive()
    }
}

impl BootstrapToken {
    /// `None`: it is something else.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        let is_part = |part: &str, length: usize| {
            part.len() == length
                && part.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
        };
        let is_token = is_part(id, ID_LENGTH) && is_part(secret, SECRET_LENGTH);
        is_token.then(|| Self { id: id.to_owned(), secret: secret.to_owned() })
    }

    /// Whether this can be the id of one.
    pub fn is_id(text: &str) -> bool {
        Self::parse(&format!("{text}.{}", "0".repeat(SECRET_LENGTH))).is_some()
    }

    /// Where it is kept.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(NAMESPACE, format!("{SECRET_PREFIX}{}", self.id))
    }

    /// Whom it proves, by the Secret as it is now; without the group of everybody who is
    /// authenticated.
    pub(crate) fn user(
        &self,
        secret: Option<&Secret>,
        now: Timestamp,
    ) -> Result<User, Unauthorized> {
        let refuse = |why: &str| Unauthorized::BootstrapToken(self.id.clone(), why.to_owned());
        let secret = secret.ok_or_else(|| refuse("there is no such Secret"))?;
        if secret.metadata.deletion_timestamp.is_some() {
            return Err(refuse("its Secret is being deleted"));
        }
        if secret.type_.as_deref() != Some(SECRET_TYPE) {
            return Err(refuse("its Secret has another type"));
        }
        let field = |key: &str| {
            let value = secret.data.as_ref().and_then(|it| it.get(key));
            value.map(|it| it.0.as_slice()).unwrap_or_default()
        };
        if !is_same(field("token-secret"), self.secret.as_bytes()) {
            return Err(refuse("its secret is another one"));
        }
        if field("token-id") != self.id.as_bytes() {
            return Err(refuse("its Secret is another token's"));
        }
        if has_expired(field("expiration"), now) {
            return Err(refuse("it has expired"));
        }
        if field("usage-bootstrap-authentication") != b"true" {
            return Err(refuse("it is not for authentication"));
        }
        let groups = groups(field("auth-extra-groups"));
        let groups = groups.ok_or_else(|| refuse("a group of it does not begin as it must"))?;
        Ok(User { name: format!("{USER_PREFIX}{}", self.id), groups, ..User::default() })
    }
}

/// An end that nobody can read has come.
fn has_expired(expiration: &[u8], now: Timestamp) -> bool {
    let end = || std::str::from_utf8(expiration).ok()?.parse::<Timestamp>().ok();
    !expiration.is_empty() && end().is_none_or(|it| it <= now)
}

/// Sorted, each once, as upstream has them.
fn groups(extra: &[u8]) -> Option<Vec<String>> {
    let mut groups = vec![GROUP.to_owned()];
    let extra = std::str::from_utf8(extra).ok()?;
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        if !is_group(group) {
            return None;
        }
        groups.push(group.to_owned());
    }
    groups.sort();
    groups.dedup();
    Some(groups)
}

/// Whether a token may name this group: `\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`.
pub fn is_group(group: &str) -> bool {
    let suffix = group.strip_prefix(GROUP).and_then(|it| it.strip_prefix(':'));
    let Some(suffix) = suffix else { return false };
    let is_letter = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    suffix.len() <= GROUP_SUFFIX_MAX
        && suffix.bytes().all(|it| is_letter(it) || it == b':' || it == b'-')
        && suffix.bytes().last().is_some_and(is_letter)
}

#[cfg(test)]
mod tests {
    use api::core::Secret;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{BootstrapToken, is_group};

    const SECRET: &str = "0123456789abcdef";

    fn judge(change: &[(&str, &str)], type_: &str, extra: &Value) -> String {
        let mut data = json!({
            "token-id": "abcdef", "token-secret": SECRET, "usage-bootstrap-authentication": "true",
        });
        for (key, value) in change {
            data[key] = json!(value);
        }
        let encoded: serde_json::Map<String, Value> = data
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| (key.clone(), json!(base64(value.as_str().unwrap()))))
            .collect();
        let mut metadata = json!({"name": "bootstrap-token-abcdef", "namespace": "kube-system"});
        if let Some(more) = extra.as_object() {
            metadata.as_object_mut().unwrap().extend(more.clone());
        }
        let secret: Secret =
            serde_json::from_value(json!({"metadata": metadata, "type": type_, "data": encoded}))
                .unwrap();
        let token = BootstrapToken::parse(&format!("abcdef.{SECRET}")).unwrap();
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        match token.user(Some(&secret), now) {
            Ok(user) => format!("{} {}", user.name, user.groups.join(" ")),
            Err(err) => err.to_string().rsplit(": ").next().unwrap().to_owned(),
        }
    }

    fn base64(text: &str) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    }

    #[test]
    fn a_token_holds_as_long_as_its_secret_says_so() {
        const TYPE: &str = "bootstrap.kubernetes.io/token";
        let check = |change: &[(&str, &str)], expected: &str| {
            assert_eq!(judge(change, TYPE, &json!({})), expected, "{change:?}");
        };
        check(&[], "system:bootstrap:abcdef system:bootstrappers");
        let groups = "system:bootstrappers:b,system:bootstrappers:a:x,system:bootstrappers:b";
        check(
            &[("auth-extra-groups", groups)],
            "system:bootstrap:abcdef system:bootstrappers system:bootstrappers:a:x system:bootstrappers:b",
        );
        let wrong_group = "a group of it does not begin as it must";
        check(&[("auth-extra-groups", "system:masters")], wrong_group);
        check(&[("auth-extra-groups", "system:bootstrappers:a,")], wrong_group);
        check(&[("token-secret", "0123456789abcdee")], "its secret is another one");
        check(&[("token-secret", "")], "its secret is another one");
        check(&[("token-id", "abcdee")], "its Secret is another token's");
        check(&[("expiration", "2025-12-31T23:59:59Z")], "it has expired");
        check(&[("expiration", "2026-01-01T00:00:00Z")], "it has expired");
        check(&[("expiration", "tomorrow")], "it has expired");
        let later = [("expiration", "2026-01-01T01:00:01+01:00")];
        check(&later, "system:bootstrap:abcdef system:bootstrappers");
        for usage in ["", "false", "TRUE"] {
            let change = [("usage-bootstrap-authentication", usage)];
            check(&change, "it is not for authentication");
        }
        assert_eq!(judge(&[], "Opaque", &json!({})), "its Secret has another type");
        let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(judge(&[], TYPE, &deleting), "its Secret is being deleted");
        let token = BootstrapToken::parse(&format!("abcdef.{SECRET}")).unwrap();
        let gone = token.user(None, Timestamp::UNIX_EPOCH).unwrap_err().to_string();
        assert!(gone.ends_with("there is no such Secret"), "{gone}");
    }

    #[test]
    fn only_what_has_the_form_is_one() {
        let is_token = |text: &str| BootstrapToken::parse(text).is_some();
        assert!(is_token("a1b2c3.0123456789abcdef"));
        for other in [
            "",
            "abcdef",
            "abcde.0123456789abcdef",
            "abcdef.0123456789abcde",
            "abcdef.0123456789abcdef0",
            "Abcdef.0123456789abcdef",
            "abcdef.0123456789abcde.",
            "abcdef.0123456789abcdef.",
            " abcdef.0123456789abcdef",
        ] {
            assert!(!is_token(other), "{other}");
        }
        assert!(BootstrapToken::is_id("abcdef") && !BootstrapToken::is_id("abcdef."));
    }

    #[test]
    fn groups_that_a_token_may_name_begin_alike() {
        let longest = format!("system:bootstrappers:{}", "a".repeat(256));
        for group in ["system:bootstrappers:a", "system:bootstrappers:a:b-c", &longest] {
            assert!(is_group(group), "{group}");
        }
        let too_long = format!("{longest}a");
        for group in [
            "system:bootstrappers",
            "system:bootstrappers:",
            "system:bootstrappers:a-",
            "system:bootstrappers:A",
            "system:bootstrappersx:a",
            "system:masters",
            &too_long,
        ] {
            assert!(!is_group(group), "{group}");
        }
    }
}

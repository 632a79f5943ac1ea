//! Names of headers in which proxies say who somebody is, as flags and ConfigMaps give them.

use anyhow::{Context as _, Result};
use authn::RequestHeaders;

/// As they were written.
pub(crate) struct Names<'a> {
    pub(crate) allowed: &'a [String],
    pub(crate) username: &'a [String],
    pub(crate) uid: &'a [String],
    pub(crate) group: &'a [String],
    pub(crate) extra_prefix: &'a [String],
}

/// `what` is what names them: `--requestheader-` or the like.
pub(crate) fn read(what: &str, names: &Names<'_>) -> Result<RequestHeaders> {
    let lower = |flag: &str, all: &[String]| -> Result<Vec<String>> {
        let each = some(all).into_iter().map(|it| {
            let name = http::HeaderName::from_bytes(it.as_bytes());
            let name =
                name.with_context(|| format!("{what}{flag}: {it:?} cannot name a header"))?;
            Ok(name.as_str().to_owned())
        });
        each.collect()
    };
    Ok(RequestHeaders {
        allowed_names: some(names.allowed),
        username: lower("username-headers", names.username)?,
        uid: lower("uid-headers", names.uid)?,
        group: lower("group-headers", names.group)?,
        extra_prefix: lower("extra-headers-prefix", names.extra_prefix)?,
    })
}

fn some(all: &[String]) -> Vec<String> {
    all.iter().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
}

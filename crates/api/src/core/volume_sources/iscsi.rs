//! Disks of a storage network: iSCSI and Fibre Channel.

use k8s_openapi::api::core::v1::FCVolumeSource;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::check;

/// With an initiator of its own, the name of the volume and the portal become one name.
const NAME_AND_PORTAL_MAX: usize = 64;
pub(crate) const NAME_TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be \
                                        under 64 characters if iscsi.initiatorName is specified.";

const LUN_MAX: i64 = 255;
const PREFIXES: [&str; 3] = ["iqn", "eui", "naa"];

/// The fields that both forms of the source have.
pub(crate) struct Iscsi<'a> {
    pub(crate) target_portal: &'a str,
    pub(crate) iqn: &'a str,
    pub(crate) lun: i32,
    pub(crate) initiator_name: Option<&'a str>,
    pub(crate) has_chap: bool,
    /// The name in it, if there is a reference.
    pub(crate) secret: Option<&'a str>,
}

impl Iscsi<'_> {
    /// Whether a volume called `name` cannot be told by name and portal.
    pub(crate) fn is_name_too_long(&self, name: &str) -> bool {
        let length = name.len() + 1 + self.target_portal.len();
        self.initiator_name.is_some() && length > NAME_AND_PORTAL_MAX
    }

    /// `foreign` is what is said of a name with another prefix.
    pub(crate) fn validate(&self, foreign: &str, path: &Path, errors: &mut FieldErrors) {
        let path_iqn = path.child("iqn");
        if self.iqn.is_empty() {
            errors.required(&path_iqn, "");
        } else {
            validate_name(self.iqn, foreign, &path_iqn, errors);
        }
        check::in_range(self.lun.into(), 0, LUN_MAX, &path.child("lun"), errors);
        if self.has_chap && self.secret.is_none() {
            errors.required(&path.child("secretRef"), "");
        }
    }

    pub(crate) fn validate_initiator(&self, foreign: &str, path: &Path, errors: &mut FieldErrors) {
        if let Some(initiator) = self.initiator_name {
            validate_name(initiator, foreign, &path.child("initiatorname"), errors);
        }
    }
}

fn validate_name(name: &str, foreign: &str, path: &Path, errors: &mut FieldErrors) {
    if !PREFIXES.iter().any(|it| name.starts_with(it)) {
        errors.invalid(path, name, foreign);
    } else if !is_iqn(name) && !is_number(name, "eui", 16) && !is_number(name, "naa", 32) {
        errors.invalid(path, name, "must be valid format");
    }
}

/// `iqn.2001-04.com.example:storage.disk`: the month when its owner owned the domain, the domain
/// in reverse, and what the owner calls it.
fn is_iqn(name: &str) -> bool {
    let of_domain = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'.';
    // The domain may be followed by any number of colons: what is behind the first is the label.
    let Some((authority, label)) = name.split_once(':') else { return false };
    let [b'i', b'q', b'n', b'.', y0, y1, y2, y3, b'-', m0, m1, b'.', domain @ ..] =
        authority.as_bytes()
    else {
        return false;
    };
    let is_month = [y0, y1, y2, y3, m0, m1].iter().all(|it| it.is_ascii_digit());
    let is_bad = |it: char| it.is_ascii_whitespace() || ",;*&$|".contains(it);
    is_month
        && !domain.is_empty()
        && domain.iter().all(|it| of_domain(*it))
        && !label.is_empty()
        && !label.contains(is_bad)
}

/// A prefix, any one character, and as many letters or digits.
fn is_number(name: &str, prefix: &str, length: usize) -> bool {
    let Some(rest) = name.strip_prefix(prefix) else { return false };
    let mut rest = rest.chars();
    rest.next().is_some_and(|it| it != '\n')
        && rest.as_str().len() == length
        && rest.as_str().bytes().all(|it| it.is_ascii_alphanumeric())
}

pub(crate) fn fc(source: &FCVolumeSource, path: &Path, errors: &mut FieldErrors) {
    let names = source.target_wwns.as_deref().unwrap_or_default();
    let has_ids = source.wwids.as_ref().is_some_and(|it| !it.is_empty());
    let path_names = path.child("targetWWNs");
    if names.is_empty() {
        if !has_ids {
            let detail = "must specify either targetWWNs or wwids, but not both";
            errors.required(&path_names, detail);
        }
        return;
    }
    if has_ids {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.invalid(&path_names, names.to_vec(), detail);
    }
    let path_lun = path.child("lun");
    match source.lun {
        None => errors.required(&path_lun, "lun is required if targetWWNs is specified"),
        Some(lun) => check::in_range(lun.into(), 0, LUN_MAX, &path_lun, errors),
    }
}

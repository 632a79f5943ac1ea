//! A certificate to serve with that nobody signed whom anybody knows, for components that were given
//! none: made at start, or kept in a directory under upstream's names.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use authn::pki::{Authority, Identity};
use jiff::SignedDuration;
use stdx::World;

use crate::data_dir::{make_private, write_private};

/// One that ends sooner is made anew at a start.
const LEFT_MIN: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Names and addresses that it is for.
type For<'a> = (&'a [&'a str], &'a [IpAddr]);

pub(crate) fn make(name: &str, (names, addresses): For<'_>, world: &World) -> Result<Identity> {
    let (now, random) = (world.clock.now(), &world.random);
    let authority = Authority::create(&format!("{name}-ca"), now, random)?;
    Ok(authority.issue_server(name, names, addresses, now, random)?)
}

/// `PAIR.crt` and `PAIR.key` in `folder`, as they are there if they are good for a while.
pub(crate) fn keep(
    folder: &Path,
    pair: &str,
    name: &str,
    who: For<'_>,
    world: &World,
) -> Result<Identity> {
    let file = |extension: &str| folder.join(format!("{pair}.{extension}"));
    let (certificate, key) = (file("crt"), file("key"));
    if let (Ok(certificate_pem), Ok(private_key_pem)) =
        (std::fs::read_to_string(&certificate), std::fs::read_to_string(&key))
    {
        let identity = Identity { certificate_pem, private_key_pem };
        let now = world.clock.now();
        if identity.not_after().is_ok_and(|it| it.duration_since(now) > LEFT_MIN) {
            return Ok(identity);
        }
    }
    let identity = make(name, who, world)?;
    make_private(folder).with_context(|| format!("making {}", folder.display()))?;
    for (path, text) in
        [(&key, &identity.private_key_pem), (&certificate, &identity.certificate_pem)]
    {
        write_private(path, text.as_bytes())
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use stdx::World;

    use super::keep;

    #[test]
    fn what_was_made_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let (folder, world) = (directory.path().join("pki"), World::system());
        let pem = || {
            let kept = keep(&folder, "kube-scheduler", "me", (&["localhost"], &[]), &world);
            kept.unwrap().certificate_pem
        };
        let first = pem();
        assert_eq!(pem(), first);
        assert!(folder.join("kube-scheduler.crt").exists());
        std::fs::remove_file(folder.join("kube-scheduler.key")).unwrap();
        assert_ne!(pem(), first);
    }
}

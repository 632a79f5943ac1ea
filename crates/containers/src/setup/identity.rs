//! Who the program is: user and groups by the image's own files, and capabilities.

use std::collections::BTreeSet;
use std::io::Read as _;

use linux::capabilities::{self, Capabilities as Set};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::{Gid, Uid};

use super::refusal::{OrRefuse as _, Refusal, Result};
use crate::spec::{Capabilities, User};

/// Longest `/etc/passwd` or `/etc/group` that is read.
const FILE_MAX: u64 = 4 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
    pub(super) home: String,
}

struct PasswdLine<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

/// In the container's root: `user`, `user:group`, each a name or a number.
pub(super) fn look_up(user: &User) -> Result<Identity> {
    resolve(user, &read("/etc/passwd")?, &read("/etc/group")?)
}

/// A user's number need not be in the file, a name must. The primary group is the given one, or
/// that of the user's line, or root's. Further groups are those that list the user's name, and
/// those that are asked for.
fn resolve(user: &User, passwd: &str, group: &str) -> Result<Identity> {
    let (user_part, group_part) =
        user.username.split_once(':').map_or((user.username.as_str(), None), |(it, group)| {
            (it, Some(group).filter(|it| !it.is_empty()))
        });
    let number = if user_part.is_empty() { Some(user.uid) } else { user_part.parse().ok() };
    let line = passwd.lines().filter_map(passwd_line).find(|it| match number {
        Some(uid) => it.uid == uid,
        None => it.name == user_part,
    });
    let uid = match (number, &line) {
        (Some(uid), _) => uid,
        (None, Some(line)) => line.uid,
        (None, None) => {
            return Err(Refusal(format!(
                "unable to find user {user_part}: no matching entries in passwd file"
            )));
        }
    };
    let of_image = match group_part {
        Some(part) => Some(group_number(part, group)?),
        None => line.as_ref().map(|it| it.gid),
    };
    let gid = user.group.or(of_image).unwrap_or(user.gid);
    let mut groups: BTreeSet<u32> = user.additional_gids.iter().copied().collect();
    groups.insert(gid);
    if let Some(line) = line.as_ref().filter(|_| !user.ignores_groups_of_image) {
        groups.extend(groups_with_member(group, line.name));
    }
    let home = line.map_or("/", |it| if it.home.is_empty() { "/" } else { it.home });
    Ok(Identity { uid, gid, groups: groups.into_iter().collect(), home: home.to_owned() })
}

/// `name:password:uid:gid:comment:home:shell`.
fn passwd_line(line: &str) -> Option<PasswdLine<'_>> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some(PasswdLine { name, uid, gid, home: fields.nth(1).unwrap_or_default() })
}

/// `name:password:gid:member,member`.
fn group_line(line: &str) -> Option<(&str, u32, &str)> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let gid = fields.nth(1)?.parse().ok()?;
    Some((name, gid, fields.next().unwrap_or_default()))
}

fn group_number(part: &str, group: &str) -> Result<u32> {
    if let Ok(gid) = part.parse() {
        return Ok(gid);
    }
    group.lines().filter_map(group_line).find(|it| it.0 == part).map(|it| it.1).ok_or_else(|| {
        Refusal(format!("unable to find group {part}: no matching entries in group file"))
    })
}

fn groups_with_member<'a>(group: &'a str, name: &'a str) -> impl Iterator<Item = u32> + 'a {
    group
        .lines()
        .filter_map(group_line)
        .filter(move |it| it.2.split(',').any(|it| it == name))
        .map(|it| it.1)
}

/// Empty where there is none. Opened so that a pipe or a device in its place does nothing.
fn read(path: &str) -> Result<String> {
    let doing = || format!("read {path}");
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(String::new()),
        result => result.or_refuse(doing)?,
    };
    let mode = rustix::fs::fstat(&file).or_refuse(doing)?.st_mode;
    if FileType::from_raw_mode(mode) != FileType::RegularFile {
        return Err(Refusal(format!("{path} is not a file")));
    }
    let mut bytes = Vec::new();
    std::fs::File::from(file).take(FILE_MAX).read_to_end(&mut bytes).or_refuse(doing)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Sets of a process, as numbers, without those that this process does not have itself.
pub(super) struct CapabilitySets {
    bounding: Set,
    effective: Set,
    inheritable: Set,
    permitted: Set,
    ambient: Set,
}

pub(super) fn parse_capabilities(wanted: &Capabilities) -> Result<CapabilitySets> {
    let ours = capabilities::bounding().or_refuse(|| "read the bounding set".to_owned())?;
    let parse = |names: &[String]| {
        let set = names.iter().filter_map(|it| Set::parse(it)).fold(Set::NONE, Set::union);
        set.intersection(ours)
    };
    Ok(CapabilitySets {
        bounding: parse(&wanted.bounding),
        effective: parse(&wanted.effective),
        inheritable: parse(&wanted.inheritable),
        permitted: parse(&wanted.permitted),
        ambient: parse(&wanted.ambient),
    })
}

/// Nothing more than these can be gained from here on. Needs CAP_SETPCAP, which the next step may
/// take away.
pub(super) fn limit(sets: &CapabilitySets) -> Result<()> {
    capabilities::limit_bounding(sets.bounding)
        .or_refuse(|| "unable to apply bounding set".to_owned())
}

/// Becomes the user, with these capabilities. Groups first: without root they cannot be changed any
/// more.
pub(super) fn assume(identity: &Identity, sets: &CapabilitySets) -> Result<()> {
    let uid = Uid::from_raw(identity.uid);
    let gid = Gid::from_raw(identity.gid);
    let groups: Vec<Gid> = identity.groups.iter().map(|it| Gid::from_raw(*it)).collect();
    rustix::thread::set_keep_capabilities(true).or_refuse(|| "keep capabilities".to_owned())?;
    rustix::thread::set_thread_groups(&groups).or_refuse(|| "setgroups".to_owned())?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)
        .or_refuse(|| format!("setgid {}", identity.gid))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)
        .or_refuse(|| format!("setuid {}", identity.uid))?;
    rustix::thread::set_keep_capabilities(false).or_refuse(|| "keep capabilities".to_owned())?;
    let doing = || "unable to apply caps".to_owned();
    capabilities::set(sets.effective, sets.permitted, sets.inheritable).or_refuse(doing)?;
    capabilities::set_ambient(sets.ambient).or_refuse(doing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/sh
# comment
app:x:1000:1001:App:/home/app:/bin/sh
bare:x:1002:1003::
broken:x:one:two::
";
    const GROUP: &str = "root:x:0:\napp:x:1001:\nvideo:x:44:app,bare\naudio:x:29:bare\n";

    fn user(name: &str) -> User {
        User { username: name.to_owned(), ..User::default() }
    }

    #[test]
    fn users_are_those_of_the_image() {
        let check = |user: User, expected: std::result::Result<(u32, u32, &[u32], &str), &str>| {
            let shown = format!("{user:?}");
            match (resolve(&user, PASSWD, GROUP), expected) {
                (Ok(it), Ok(expected)) => {
                    let actual = (it.uid, it.gid, it.groups.as_slice(), it.home.as_str());
                    assert_eq!(actual, expected, "{shown}");
                }
                (Err(Refusal(text)), Err(expected)) => assert_eq!(text, expected),
                (actual, expected) => panic!("{shown}: {actual:?}, expected {expected:?}"),
            }
        };
        check(user(""), Ok((0, 0, &[0], "/root")));
        check(user("app"), Ok((1000, 1001, &[44, 1001], "/home/app")));
        check(user("1000"), Ok((1000, 1001, &[44, 1001], "/home/app")));
        check(user("4711"), Ok((4711, 0, &[0], "/")));
        check(user("app:audio"), Ok((1000, 29, &[29, 44], "/home/app")));
        check(user("4711:5"), Ok((4711, 5, &[5], "/")));
        check(user("bare:"), Ok((1002, 1003, &[29, 44, 1003], "/")));
        let given = User { group: Some(7), additional_gids: vec![9, 9], ..user("app") };
        check(given, Ok((1000, 7, &[7, 9, 44], "/home/app")));
        let strict = User { ignores_groups_of_image: true, ..user("app:audio") };
        check(strict, Ok((1000, 29, &[29], "/home/app")));
        let nobody = "unable to find user nobody: no matching entries in passwd file";
        check(user("nobody"), Err(nobody));
        let none = "unable to find group none: no matching entries in group file";
        check(user("app:none"), Err(none));
        check(
            user("broken"),
            Err("unable to find user broken: no matching entries in passwd file"),
        );
    }
}

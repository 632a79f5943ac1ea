//! Whom this server is to whom, by the users of a kubeconfig: their names are those of who is
//! asked, exactly or with a star for what comes before.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::identity::{Error, Identity};
use crate::kubeconfig::Users;

const PORT: &str = "443";

#[derive(Debug, Default)]
pub struct Credentials {
    by_name: BTreeMap<String, Arc<Identity>>,
    current: Option<String>,
}

impl Credentials {
    /// Paths in it are relative to `folder`. An error says which user cannot be.
    pub fn new(users: &Users, folder: &Path) -> Result<Self, (String, Error)> {
        let ready = users.by_name.iter().map(|(name, user)| {
            let identity = Identity::new(user, folder).map_err(|err| (name.clone(), err))?;
            Ok((name.clone(), Arc::new(identity)))
        });
        Ok(Self { by_name: ready.collect::<Result<_, _>>()?, current: users.current.clone() })
    }

    /// Who to be for `host:port`; nobody if nothing is said about it.
    pub fn find(&self, authority: &str) -> Option<&Arc<Identity>> {
        let without_port = authority.rsplit_once(':').filter(|it| it.1 == PORT).map(|it| it.0);
        self.by_host(authority)
            .or_else(|| self.by_host(without_port?))
            .or_else(|| self.by_name.get("*"))
            .or_else(|| self.by_name.get(self.current.as_ref()?))
    }

    /// `a.b.c`, `*.b.c`, `*.c`: the nearest.
    fn by_host(&self, host: &str) -> Option<&Arc<Identity>> {
        if let Some(found) = self.by_name.get(host) {
            return Some(found);
        }
        let dots = host.match_indices('.').map(|it| it.0);
        dots.into_iter().find_map(|dot| self.by_name.get(&format!("*{}", &host[dot..])))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Credentials;
    use crate::kubeconfig;

    fn credentials(names: &[&str], current: &str) -> Credentials {
        let user = |it: &&str| format!("- {{name: '{it}', user: {{token: t}}}}\n");
        let users: String = names.iter().map(user).collect();
        let text = format!(
            "users:\n{users}contexts:\n- {{name: c, context: {{user: '{current}'}}}}\n\
             current-context: c\n"
        );
        let users = kubeconfig::users(&text).expect("a kubeconfig");
        Credentials::new(&users, Path::new("/")).expect("credentials")
    }

    #[test]
    fn the_nearest_name_is_right() {
        let check = |names: &[&str], authority: &str, expected: &str| {
            let all = credentials(names, "me");
            let found = all.find(authority).map(|found| {
                let is_it = |it: &&&str| std::sync::Arc::ptr_eq(&all.by_name[**it], found);
                *names.iter().find(is_it).expect("one of them")
            });
            assert_eq!(found.unwrap_or("nobody"), expected, "{authority} of {names:?}");
        };
        let service = "hook.ns.svc:443";
        check(&["hook.ns.svc:443", "hook.ns.svc", "*.ns.svc", "*"], service, "hook.ns.svc:443");
        check(&["hook.ns.svc", "*.ns.svc", "*"], service, "hook.ns.svc");
        check(&["*.ns.svc", "*.svc", "*"], service, "*.ns.svc");
        check(&["*.svc", "*"], service, "*.svc");
        check(&["*.svc:443", "hook.ns.svc"], service, "*.svc:443");
        check(&["*", "me"], service, "*");
        check(&["me", "other"], service, "me");
        check(&["other"], service, "nobody");
        // Another port is said, or no name of a host counts.
        check(&["hook.ns.svc", "*.ns.svc"], "hook.ns.svc:8443", "nobody");
        check(&["hook.ns.svc:8443", "*.svc:8443"], "hook.ns.svc:8443", "hook.ns.svc:8443");
        check(&["*.svc:8443"], "hook.ns.svc:8443", "*.svc:8443");
        check(&["*.example.com"], "example.com:443", "nobody");
        check(&["*.example.com"], "a.b.example.com:443", "*.example.com");
    }

    #[test]
    fn what_cannot_be_is_named() {
        let check = |user: &str, expected: &str| {
            let text = format!("users:\n- {{name: u, user: {user}}}\n");
            let found = kubeconfig::users(&text).map_err(|err| err.to_string()).and_then(|it| {
                let made = Credentials::new(&it, Path::new("/nowhere"));
                made.map(drop).map_err(|(name, err)| format!("{name}: {}", stdx::error_chain(&err)))
            });
            let found = found.expect_err("it cannot be");
            assert!(found.starts_with(expected), "{found}");
        };
        check("{exec: {command: x}}", "the user \"u\" has exec, which cannot be used here");
        check("{as: other}", "the user \"u\" has as, which cannot be used here");
        check("{tokenFile: t}", "u: tokenFile: reading /nowhere/t: ");
        check("{token: t, username: me}", "u: token and username: there may be one of them");
        check("{client-certificate-data: eA==}", "u: client-certificate: there is one without");
        check("{client-certificate-data: eA==, client-key-data: eA==}", "u: client-key is not PEM");
    }
}

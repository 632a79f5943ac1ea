//! Credentials in, identities or refusals out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use api::certificates::certificate_signing_request::NODE_SINCE;
use api::{Lookup, Meta, Stored};
use apimachinery::{GroupResource, ObjectKey, User};
use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};
use stdx::{Clock, Random};

use crate::pki::{Authority, ServiceAccountKey, Subject, Terms, VerifyingKey};
use crate::tokens::{self, Bound, ISSUER_DEFAULT, Reference, TokenIssuer, Wanted};
use crate::{
    Authenticator, ClientCertificate, Component, Credential, DeletedNodes, Deletion, Impersonation,
    Parts, Target, Unauthorized, legacy,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

struct SetClock(Mutex<Timestamp>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

type Keyed = BTreeMap<(String, ObjectKey), Arc<Stored>>;

#[derive(Default)]
struct Objects(Mutex<Keyed>);

impl Objects {
    fn set(&self, resource: &str, name: &str, uid: &str) {
        self.set_deleted(resource, name, uid, None);
    }

    fn set_deleted(&self, resource: &str, name: &str, uid: &str, deleted: Option<Timestamp>) {
        let object = json!({"metadata": {"namespace": "ns", "name": name, "uid": uid,
            "deletionTimestamp": deleted}});
        self.set_whole(resource, name, uid, (&object, deleted));
    }

    fn set_whole(
        &self,
        resource: &str,
        name: &str,
        uid: &str,
        (object, deleted): (&Value, Option<Timestamp>),
    ) {
        let key = ObjectKey::new("ns", name);
        let meta = Meta {
            key: key.clone(),
            uid: uid.to_owned(),
            is_deleting: deleted.is_some(),
            ..Meta::default()
        };
        let stored = Arc::new(Stored::new(meta, object.to_string().into_bytes().into()));
        self.0.lock().unwrap().insert((resource.to_owned(), key), stored);
    }

    fn remove(&self, resource: &str, name: &str) {
        self.0.lock().unwrap().remove(&(resource.to_owned(), ObjectKey::new("ns", name)));
    }
}

impl Lookup for Objects {
    fn find(&self, resource: &GroupResource, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.0.lock().unwrap().get(&(resource.resource.clone(), key.clone())).cloned()
    }

    fn list(&self, _: &GroupResource, _: Option<&str>) -> Vec<Arc<Stored>> {
        Vec::new()
    }
}

struct World {
    clock: Arc<SetClock>,
    key: Arc<ServiceAccountKey>,
    objects: Arc<Objects>,
    issuer: TokenIssuer,
    authenticator: Authenticator,
    deleted_nodes: Arc<DeletedNodes>,
}

fn start() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

fn world() -> World {
    world_with(Arc::new(ServiceAccountKey::create().unwrap()))
}

/// Signs with a key of its own, and knows those of others.
fn world_that_knows(others: Vec<VerifyingKey>) -> World {
    let mut world = world();
    world.authenticator = Authenticator::new(Parts {
        service_account_keys: others,
        issuers: vec![ISSUER_DEFAULT.to_owned()],
        audiences: vec![ISSUER_DEFAULT.to_owned()],
        has_bootstrap_tokens: false,
        clock: world.clock.clone(),
        lookup: world.objects.clone(),
        deleted_nodes: Arc::default(),
    });
    world
}

fn world_with(key: Arc<ServiceAccountKey>) -> World {
    let clock = Arc::new(SetClock(Mutex::new(start())));
    let objects = Arc::new(Objects::default());
    objects.set("serviceaccounts", "robot", "u1");
    objects.set("pods", "web", "p1");
    let audiences = vec![ISSUER_DEFAULT.to_owned()];
    let random = Random::from_seed(1);
    let issuer =
        TokenIssuer::new(key.clone(), ISSUER_DEFAULT, audiences.clone(), clock.clone(), random)
            .unwrap();
    let deleted_nodes = Arc::<DeletedNodes>::default();
    let authenticator = Authenticator::new(Parts {
        service_account_keys: vec![key.public().clone()],
        issuers: vec![ISSUER_DEFAULT.to_owned()],
        audiences,
        has_bootstrap_tokens: true,
        clock: clock.clone(),
        lookup: objects.clone(),
        deleted_nodes: deleted_nodes.clone(),
    });
    World { clock, key, objects, issuer, authenticator, deleted_nodes }
}

fn request(seconds: i64, audiences: &[&str]) -> Wanted {
    let reference =
        |name: &str, uid: &str| Reference { name: name.to_owned(), uid: uid.to_owned() };
    Wanted {
        namespace: "ns".to_owned(),
        service_account: reference("robot", "u1"),
        audiences: audiences.iter().map(|it| (*it).to_owned()).collect(),
        expiration_seconds: seconds,
        bound: Some(Bound::Pod { pod: reference("web", "p1"), node: None }),
    }
}

impl World {
    fn check(&self, token: &str, expected: Result<&str, &str>) {
        let outcome = self.authenticator.authenticate(&Credential::Bearer(token.to_owned()));
        let said = outcome.map(|it| it.user().name.clone()).map_err(|err| err.to_string());
        assert_eq!(said.as_deref().map_err(String::as_str), expected);
    }

    fn advance(&self, seconds: i64) {
        let mut now = self.clock.0.lock().unwrap();
        *now = now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }
}

#[test]
fn a_token_proves_its_account_and_says_which_pod_uses_it() {
    let world = world();
    let issued = world.issuer.issue(request(600, &[])).unwrap();
    assert_eq!(issued.expiration.as_second(), start().as_second() + 600);
    let credential = Credential::Bearer(issued.token);
    let user = world.authenticator.authenticate(&credential).unwrap().user().clone();
    assert_eq!(user.name, "system:serviceaccount:ns:robot");
    assert_eq!(user.uid, "u1");
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
    );
    let extra = |key: &str| user.extra[&format!("authentication.kubernetes.io/{key}")][0].clone();
    assert_eq!((extra("pod-name"), extra("pod-uid")), ("web".to_owned(), "p1".to_owned()));
    assert!(extra("credential-id").starts_with("JTI="));
}

#[test]
fn a_token_ends_with_its_time_its_pod_or_its_account() {
    const GOOD: Result<&str, &str> = Ok("system:serviceaccount:ns:robot");
    let world = world();
    let token = world.issuer.issue(request(600, &[])).unwrap().token;
    world.check(&token, GOOD);
    world.objects.set("pods", "web", "p2");
    world.check(&token, Err(r#"pod "web" that the bearer token is bound to is gone"#));
    world.objects.set("pods", "web", "p1");
    world.objects.set("serviceaccounts", "robot", "u2");
    world.check(&token, Err(r#"serviceaccount "robot" that the bearer token is bound to is gone"#));
    world.objects.set("serviceaccounts", "robot", "u1");
    world.advance(599);
    world.check(&token, GOOD);
    world.advance(1);
    world.check(&token, Err("the bearer token is expired or not valid yet"));
    let elsewhere = world.issuer.issue(request(600, &["vault"])).unwrap().token;
    world.check(&elsewhere, Err("the bearer token is for another audience"));
    let (_, matched) = world.authenticator.review(&elsewhere, &["vault".to_owned()]).unwrap();
    assert_eq!(matched, ["vault"]);
}

/// That a token was verified is remembered; nothing else about it is.
#[test]
fn a_token_that_was_seen_before_ends_at_once_with_what_it_is_bound_to() {
    const GOOD: Result<&str, &str> = Ok("system:serviceaccount:ns:robot");
    const NO_POD: Result<&str, &str> =
        Err(r#"pod "web" that the bearer token is bound to is gone"#);
    let world = world();
    let token = world.issuer.issue(request(6000, &[])).unwrap().token;
    for _ in 0..2 {
        world.check(&token, GOOD);
        world.objects.remove("pods", "web");
        world.check(&token, NO_POD);
        world.objects.set("pods", "web", "p1");
        world.check(&token, GOOD);
        world.objects.remove("serviceaccounts", "robot");
        let gone = r#"serviceaccount "robot" that the bearer token is bound to is gone"#;
        world.check(&token, Err(gone));
        world.objects.set("serviceaccounts", "robot", "u1");
    }
    // A pod that is being deleted has a minute to end in peace.
    world.objects.set_deleted("pods", "web", "p1", Some(start()));
    world.check(&token, GOOD);
    world.advance(60);
    world.check(&token, GOOD);
    world.advance(1);
    world.check(&token, NO_POD);
}

#[test]
fn a_token_that_was_seen_before_is_still_for_its_audience_alone() {
    let world = world();
    let vault = ["vault".to_owned()];
    let elsewhere = world.issuer.issue(request(600, &["vault"])).unwrap().token;
    assert!(world.authenticator.review(&elsewhere, &vault).is_ok());
    world.check(&elsewhere, Err("the bearer token is for another audience"));
    let own = world.issuer.issue(request(600, &[])).unwrap().token;
    world.check(&own, Ok("system:serviceaccount:ns:robot"));
    assert_eq!(world.authenticator.review(&own, &vault).err(), Some(Unauthorized::Audience));
}

#[test]
fn tokens_of_any_issuer_that_is_named_are_taken() {
    let world = world();
    let token = world.issuer.issue(request(600, &[])).unwrap().token;
    let outcome = |issuers: &[&str]| {
        let authenticator = Authenticator::new(Parts {
            service_account_keys: vec![world.key.public().clone()],
            issuers: issuers.iter().map(|it| (*it).to_owned()).collect(),
            audiences: vec![ISSUER_DEFAULT.to_owned()],
            has_bootstrap_tokens: false,
            clock: world.clock.clone(),
            lookup: world.objects.clone(),
            deleted_nodes: Arc::default(),
        });
        authenticator.authenticate(&Credential::Bearer(token.clone())).map(|_| ())
    };
    assert_eq!(outcome(&["https://new.example.com", ISSUER_DEFAULT]), Ok(()));
    assert_eq!(outcome(&["https://new.example.com"]), Err(Unauthorized::Issuer));
}

#[test]
fn forged_and_broken_tokens_are_refused() {
    let (one, two) = (world(), world());
    let foreign = two.issuer.issue(request(600, &[])).unwrap().token;
    let own = one.issuer.issue(request(600, &[])).unwrap().token;
    let mut parts: Vec<&str> = own.split('.').collect();
    let foreign_parts: Vec<&str> = foreign.split('.').collect();
    parts[2] = foreign_parts[2];
    for token in [foreign.clone(), parts.join("."), "abc".to_owned(), String::new()] {
        let outcome = one.authenticator.authenticate(&Credential::Bearer(token.clone()));
        assert!(matches!(outcome, Err(Unauthorized::Token(_))), "{token}");
    }
}

#[test]
fn automatic_tokens_of_pods_outlive_what_their_client_is_told() {
    let world = world();
    let issued = world.issuer.issue(request(3607, &[])).unwrap();
    assert_eq!(issued.expiration.as_second(), start().as_second() + 3607);
    world.advance(24 * 3600);
    world.check(&issued.token, Ok("system:serviceaccount:ns:robot"));
}

#[test]
fn certificates_components_and_nobody_have_their_groups() {
    let world = world();
    let random = Random::from_seed(2);
    let authority = Authority::create("xebec", start(), &random).unwrap();
    let identity =
        authority.issue_client("system:node:n", &["system:nodes"], start(), &random).unwrap();
    let pem = x509_parser::pem::parse_x509_pem(identity.certificate_pem.as_bytes()).unwrap().1;
    let groups = |credential: Credential| {
        let user = world.authenticator.authenticate(&credential).unwrap().user().clone();
        format!("{} {}", user.name, user.groups.join(","))
    };
    let certificate = |der: &[u8]| Credential::Certificate(Arc::new(ClientCertificate::read(der)));
    let broken = world.authenticator.authenticate(&certificate(&[1, 2]));
    assert!(matches!(broken, Err(Unauthorized::Certificate)));
    let certificate = certificate(&pem.contents);
    assert_eq!(groups(certificate.clone()), "system:node:n system:nodes,system:authenticated");
    assert_eq!(groups(Credential::None), "system:anonymous system:unauthenticated");
    let component = Component::new(User::new("system:kube-scheduler", &[]));
    assert_eq!(
        groups(Credential::Component(component)),
        "system:kube-scheduler system:authenticated"
    );
    world.advance(366 * 24 * 3600);
    let late = world.authenticator.authenticate(&certificate).map(|it| it.user().name.clone());
    assert_eq!(late, Err(Unauthorized::CertificateExpired));
}

#[test]
fn certificates_of_a_node_end_with_it_and_say_since_when_they_are_its() {
    let world = world();
    let random = Random::from_seed(2);
    let authority = Authority::create("xebec", start(), &random).unwrap();
    let signed = |name: &str, group: &str, since: Option<u64>| {
        let subject = Subject {
            common_name: name.to_owned(),
            organization: group.to_owned(),
            ..Subject::default()
        };
        let wanted = crate::pki::Wanted::create(&subject).unwrap();
        let request = &api::certificates::pem::blocks(&wanted.request_pem)[0].bytes;
        let (usages, not_after) = (vec!["client auth".to_owned()], start() + HOUR);
        let terms = Terms { usages, not_before: start() - HOUR / 12, not_after, since };
        let pem = authority.sign_request(request, &terms, &random).unwrap();
        let der = &api::certificates::pem::blocks(&pem)[0].bytes;
        Credential::Certificate(Arc::new(ClientCertificate::read(der)))
    };
    let check = |credential: &Credential, expected: Result<Option<&str>, Unauthorized>| {
        let found = world.authenticator.authenticate(credential);
        let since =
            |it: crate::Authenticated| it.user().extra.get(NODE_SINCE).map(|it| it.join(","));
        let expected = expected.map(|it| it.map(str::to_owned));
        assert_eq!(found.map(since), expected);
    };
    let kubelet = signed("system:node:b", "system:nodes", Some(7));
    let proxy = signed("system:kube-proxy", "xebec:node:b", Some(7));
    let of_other = signed("system:node:c", "system:nodes", Some(7));
    let foreign = signed("system:node:b", "system:nodes", None);
    let person = signed("jane", "people", Some(7));
    let all = [&kubelet, &proxy, &of_other];
    all.into_iter().for_each(|it| check(it, Ok(Some("7"))));
    [&foreign, &person].into_iter().for_each(|it| check(it, Ok(None)));

    world.deleted_nodes.note("b", Deletion { revision: 8, at: start() });
    let refused = || Err(Unauthorized::CertificateOfDeletedNode);
    [&kubelet, &proxy, &foreign].into_iter().for_each(|it| check(it, refused()));
    check(&of_other, Ok(Some("7")));
    check(&person, Ok(None));
    check(&signed("system:node:b", "system:nodes", Some(9)), Ok(Some("9")));
}

#[test]
fn of_several_common_names_the_last_is_the_user() {
    let name_of = |names: &[(DnType, &str)]| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let read = ClientCertificate::read(certificate.der());
        read.user("2026-01-01T00:00:00Z".parse().unwrap()).map(|it| it.name.clone())
    };
    // Another way to say the same type, so that there may be two.
    let again = DnType::CustomDnType(vec![2, 5, 4, 3]);
    assert_eq!(name_of(&[(DnType::CommonName, "one")]).unwrap(), "one");
    assert_eq!(name_of(&[(DnType::CommonName, "one"), (again.clone(), "two")]).unwrap(), "two");
    assert_eq!(name_of(&[(again, "two"), (DnType::CommonName, "one")]).unwrap(), "one");
    let nobody = name_of(&[(DnType::OrganizationName, "one")]);
    assert_eq!(nobody, Err(Unauthorized::CertificateWithoutUser));
}

#[test]
fn impersonation_takes_one_permission_per_name() {
    let world = world();
    let real = world.authenticator.authenticate(&Credential::None).unwrap();
    let check = |user: &str, groups: &[&str], checks: &[&str], resulting: &[&str]| {
        let groups = groups.iter().map(|it| (*it).to_owned()).collect();
        let target = Target { user: user.to_owned(), groups, ..Target::default() };
        let impersonation = Impersonation::new(target).unwrap();
        let shown: Vec<String> = impersonation
            .checks()
            .iter()
            .map(|it| format!("{} {}/{}", it.resource, it.namespace, it.name))
            .collect();
        assert_eq!(shown, checks);
        assert_eq!(impersonation.confirm(&real).user().groups, resulting);
    };
    check("bob", &["g"], &["users /bob", "groups /g"], &["g", "system:authenticated"]);
    check(
        "system:serviceaccount:ns:robot",
        &[],
        &["serviceaccounts ns/robot"],
        &["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
    );
    check("system:anonymous", &[], &["users /system:anonymous"], &["system:unauthenticated"]);
    let nameless = Target { groups: vec!["g".to_owned()], ..Target::default() };
    assert!(Impersonation::new(nameless).is_err());
}

#[test]
fn the_key_set_names_the_key_of_tokens() {
    let key = ServiceAccountKey::create().unwrap();
    let again = ServiceAccountKey::load(&key.private_pem()).unwrap();
    assert_eq!(key.id(), again.id());
    let set = tokens::jwks([key.public()]);
    assert_eq!(set["keys"][0]["kid"], key.id());
    assert_eq!(set["keys"][0]["x"].as_str().map(str::len), Some(43));
}

#[test]
fn keys_that_others_made_sign_too() {
    let of = |algorithm| KeyPair::generate_for(algorithm).unwrap().serialize_pem();
    let size = rcgen::RsaKeySize::_2048;
    let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size).unwrap();
    let cases = [
        (rsa.serialize_pem(), "RS256", &["n", "e"]),
        (of(&rcgen::PKCS_ECDSA_P256_SHA256), "ES256", &["x", "y"]),
        (of(&rcgen::PKCS_ECDSA_P384_SHA384), "ES384", &["x", "y"]),
    ];
    for (pem, algorithm, parts) in cases {
        let key = Arc::new(ServiceAccountKey::load(&pem).unwrap());
        let world = world_with(key.clone());
        let token = legacy(&world);
        keep(&world, &token, &json!({}));
        world.check(&token, Ok("system:serviceaccount:ns:robot"));
        let issued = world.issuer.issue(request(600, &[])).unwrap();
        world.check(&issued.token, Ok("system:serviceaccount:ns:robot"));
        let set = tokens::jwks([key.public()]);
        assert_eq!(set["keys"][0]["alg"], algorithm);
        assert!(parts.iter().all(|it| set["keys"][0][it].is_string()), "{set}");
        let told = tokens::openid_configuration("i", "u", [key.public()]);
        assert_eq!(told["id_token_signing_alg_values_supported"], json!([algorithm]));
    }
    let other = of(&rcgen::PKCS_ED25519);
    let refused = ServiceAccountKey::load(&other).err().map(|it| it.to_string());
    assert!(refused.unwrap().contains("RSA, ECDSA P-256 or ECDSA P-384"));
}

/// Signed by somebody else's program, with a header of its own.
fn signed_elsewhere(key: &ServiceAccountKey, header: &Value, claims: &Value) -> String {
    let encode = |it: &Value| URL_SAFE_NO_PAD.encode(it.to_string());
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature =
        jsonwebtoken::crypto::sign(message.as_bytes(), &key.encoding().unwrap(), key.algorithm());
    format!("{message}.{}", signature.unwrap())
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64.encode(der))
}

/// The content of the first value, and what follows that.
fn take(der: &[u8]) -> (&[u8], &[u8]) {
    let (start, length) = match der[1] {
        short @ ..0x80 => (2, usize::from(short)),
        long => {
            let start = 2 + usize::from(long & 0x7f);
            (start, der[2..start].iter().fold(0, |sum, it| (sum << 8) | usize::from(*it)))
        }
    };
    der[start..].split_at(length)
}

/// What is inside of a key of PKCS #8: the form that kubeadm writes RSA keys in, and OpenSSL ECDSA
/// keys.
fn inside(pair: &KeyPair) -> Vec<u8> {
    let pkcs8 = pair.serialize_der();
    let (_version, rest) = take(take(&pkcs8).0);
    let (_algorithm, rest) = take(rest);
    take(rest).0.to_vec()
}

/// A private key in PEM, its public half, and the algorithm of its signatures.
fn keys_of_others() -> Vec<(String, String, &'static str)> {
    let size = rcgen::RsaKeySize::_2048;
    let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size).unwrap();
    let p256 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let p384 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let before = pem("EC PARAMETERS", &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]);
    vec![
        (pem("RSA PRIVATE KEY", &inside(&rsa)), rsa.public_key_pem(), "RS256"),
        (rsa.serialize_pem(), rsa.public_key_pem(), "RS256"),
        (before + &pem("EC PRIVATE KEY", &inside(&p256)), p256.public_key_pem(), "ES256"),
        (pem("EC PRIVATE KEY", &inside(&p384)), p384.public_key_pem(), "ES384"),
    ]
}

#[test]
fn tokens_of_a_cluster_that_is_taken_over_hold() {
    const GOOD: Result<&str, &str> = Ok("system:serviceaccount:ns:robot");
    for (private, public, algorithm) in keys_of_others() {
        let theirs = Arc::new(ServiceAccountKey::load(&private).unwrap());
        let [verifying] = VerifyingKey::load_all(&public).unwrap().try_into().ok().unwrap();
        assert_eq!(verifying.id(), theirs.id());
        let bound = json!({
            "aud": [ISSUER_DEFAULT], "exp": start().as_second() + 600, "iat": start().as_second(),
            "iss": ISSUER_DEFAULT, "jti": "j", "nbf": start().as_second(),
            "kubernetes.io": {
                "namespace": "ns", "pod": {"name": "web", "uid": "p1"},
                "serviceaccount": {"name": "robot", "uid": "u1"},
            },
            "sub": "system:serviceaccount:ns:robot",
        });
        let kept = json!({
            "iss": "kubernetes/serviceaccount",
            "kubernetes.io/serviceaccount/namespace": "ns",
            "kubernetes.io/serviceaccount/secret.name": "kept",
            "kubernetes.io/serviceaccount/service-account.name": "robot",
            "kubernetes.io/serviceaccount/service-account.uid": "u1",
            "sub": "system:serviceaccount:ns:robot",
        });
        // As the only key, and as one whose public half alone is there.
        let own = world_with(theirs.clone());
        let beside = world_that_knows(vec![verifying]);
        let stranger = world();
        for kid in [json!(theirs.id()), json!(""), Value::Null] {
            let mut header = json!({"alg": algorithm});
            if !kid.is_null() {
                header["kid"] = kid;
            }
            for claims in [&bound, &kept] {
                let token = signed_elsewhere(&theirs, &header, claims);
                for world in [&own, &beside] {
                    keep(world, &token, &json!({}));
                    world.check(&token, GOOD);
                }
                let refused = Credential::Bearer(token);
                assert!(stranger.authenticator.authenticate(&refused).is_err());
            }
        }
        let unknown = json!({"alg": algorithm, "kid": "other"});
        let token = signed_elsewhere(&theirs, &unknown, &bound);
        own.check(&token, Err("the bearer token is not one of ours: unknown key"));
    }
}

#[test]
fn a_file_may_have_several_keys_and_nothing_else() {
    let all = keys_of_others();
    let ((private, public, _), (ec, ..)) = (&all[0], &all[2]);
    let all = VerifyingKey::load_all(&format!("{public}{ec}{private}")).unwrap();
    let ids: Vec<&str> = all.iter().map(VerifyingKey::id).collect();
    assert_eq!(ids.len(), 3);
    assert_eq!(ids[0], ids[2], "it is the same key");
    let refused = |pem: &str| VerifyingKey::load_all(pem).unwrap_err().to_string();
    assert!(refused("").contains("there is no key in PEM"));
    assert!(
        refused("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")
            .contains(r#"no key is expected in a block "CERTIFICATE""#)
    );
    refused("-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n");
}

/// Puts a Secret that holds `token`, with `labels`.
fn keep(world: &World, token: &str, labels: &Value) {
    let token = BASE64.encode(token);
    let meta = json!({"namespace": "ns", "name": "kept", "uid": "s1", "labels": labels});
    let secret = json!({
        "metadata": meta, "type": "kubernetes.io/service-account-token", "data": {"token": token},
    });
    world.objects.set_whole("secrets", "kept", "s1", (&secret, None));
}

fn legacy(world: &World) -> String {
    let account = Reference { name: "robot".to_owned(), uid: "u1".to_owned() };
    legacy::Signer::new(&world.key).unwrap().sign("ns", &account, "kept").unwrap()
}

#[test]
fn a_token_in_a_secret_proves_its_account_as_long_as_it_is_there() {
    const GOOD: Result<&str, &str> = Ok("system:serviceaccount:ns:robot");
    const NO_SECRET: Result<&str, &str> =
        Err(r#"secret "kept" that the bearer token is bound to is gone"#);
    const NO_ACCOUNT: Result<&str, &str> =
        Err(r#"serviceaccount "robot" that the bearer token is bound to is gone"#);
    let world = world();
    let token = legacy(&world);
    world.check(&token, NO_SECRET);
    keep(&world, "another", &json!({}));
    world.check(&token, Err("the bearer token is not one of ours: its Secret has another one"));
    keep(&world, &token, &json!({}));
    world.check(&token, GOOD);
    // It has no end of its own.
    world.advance(10 * 365 * 24 * 3600);
    world.check(&token, GOOD);
    world.objects.set("serviceaccounts", "robot", "u2");
    world.check(&token, NO_ACCOUNT);
    world.objects.set_deleted("serviceaccounts", "robot", "u1", Some(start()));
    world.check(&token, NO_ACCOUNT);
    world.objects.set("serviceaccounts", "robot", "u1");
    world.objects.set_deleted("secrets", "kept", "s1", Some(start()));
    world.check(&token, NO_SECRET);
}

#[test]
fn a_token_in_a_secret_has_the_groups_of_its_account_and_is_for_this_server() {
    let world = world();
    let token = legacy(&world);
    keep(&world, &token, &json!({}));
    let user = world.authenticator.authenticate(&Credential::Bearer(token.clone())).unwrap();
    assert_eq!(user.user().uid, "u1");
    assert_eq!(
        user.user().groups,
        ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
    );
    assert!(user.user().extra.is_empty());
    let (_, matched) = world.authenticator.review(&token, &[]).unwrap();
    assert_eq!(matched, [ISSUER_DEFAULT]);
    let elsewhere = world.authenticator.review(&token, &["vault".to_owned()]);
    assert_eq!(elsewhere.unwrap_err(), Unauthorized::Audience);
}

#[test]
fn a_token_in_a_secret_says_how_it_came_there_and_may_be_marked_invalid() {
    let world = world();
    let token = legacy(&world);
    keep(&world, &token, &json!({legacy::LAST_USED: "2025-12-31"}));
    let used = || {
        let outcome = world.authenticator.authenticate(&Credential::Bearer(token.clone()));
        outcome.map(|it| it.legacy_token().cloned().expect("it is in a Secret"))
    };
    let by_hand = used().unwrap();
    assert!(!by_hand.is_automatic);
    assert_eq!(by_hand.last_used.as_deref(), Some("2025-12-31"));
    let account = json!({
        "metadata": {"namespace": "ns", "name": "robot", "uid": "u1"}, "secrets": [{"name": "kept"}],
    });
    world.objects.set_whole("serviceaccounts", "robot", "u1", (&account, None));
    assert!(used().unwrap().is_automatic);
    keep(&world, &token, &json!({legacy::INVALID_SINCE: "2026-01-01"}));
    assert!(matches!(used(), Err(Unauthorized::Invalidated(it)) if it.secret_uid == "s1"));
    // An empty mark is none.
    keep(&world, &token, &json!({legacy::INVALID_SINCE: ""}));
    assert!(used().is_ok());
}

#[test]
fn a_token_in_a_secret_is_signed_by_us_and_speaks_of_one_account() {
    let world = world();
    let token = legacy(&world);
    keep(&world, &token, &json!({}));
    let stranger = Arc::new(ServiceAccountKey::create().unwrap());
    let account = Reference { name: "robot".to_owned(), uid: "u1".to_owned() };
    let forged = legacy::Signer::new(&stranger).unwrap().sign("ns", &account, "kept").unwrap();
    keep(&world, &forged, &json!({}));
    world.check(&forged, Err("the bearer token is not one of ours: unknown key"));
    let nameless = Reference { name: String::new(), uid: "u1".to_owned() };
    let empty = legacy::Signer::new(&world.key).unwrap().sign("ns", &nameless, "kept").unwrap();
    keep(&world, &empty, &json!({}));
    world.check(&empty, Err("the bearer token is not one of ours: a claim is missing"));
}

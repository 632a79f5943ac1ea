//! Pulls from registries that are good, bad, slow and gone.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use images::{Config, Digest, Limits, Store};
use node_api::Images as _;
use node_api::images::{Credentials, Error, Image};
use serde_json::json;
use tempfile::TempDir;

use crate::content::{Made, architecture, descriptor, gzip, is_root, tar, zstd};
use crate::fake::{Answer, Content, End, Fake};

fn open(directory: &TempDir) -> Store {
    open_with(directory, |_| {})
}

fn open_with(directory: &TempDir, change: impl FnOnce(&mut Config)) -> Store {
    let mut config = Config::new(directory.path());
    config.limits = Limits {
        timeout_idle: Duration::from_millis(300),
        retry_delay: Duration::from_millis(1),
        ..Limits::default()
    };
    change(&mut config);
    Store::open(config).unwrap()
}

async fn pull(store: &Store, reference: &str) -> Result<Image, Error> {
    pull_as(store, reference, vec![]).await
}

async fn pull_as(
    store: &Store,
    reference: &str,
    credentials: Vec<Credentials>,
) -> Result<Image, Error> {
    store.pull(reference, credentials).await.map_err(|err| match err {
        node_api::Error::Image(err) => err,
        other => panic!("{other}"),
    })
}

fn credentials(user: &str, password: &str) -> Credentials {
    Credentials { registry: None, user: user.to_owned(), password: password.to_owned() }
}

/// A layer too large for one read, that does not compress.
fn large_layer() -> Vec<u8> {
    let mut state = 1u64;
    let noise: Vec<u8> = (0..300_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    tar(&[("noise", &noise)])
}

#[tokio::test]
async fn an_image_is_pulled_by_tag_and_by_digest() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let made =
        Made::new(&[(tar(&[("etc/text", b"1")]), gzip), (tar(&[("etc/text", b"2")]), zstd)], "run");
    let content = Content::of("a/b", "1", &made);
    let fake = Fake::start(move |asked| content.answer(asked));
    let name = format!("{}/a/b", fake.host());
    let image = pull(&store, &format!("{name}:1")).await.unwrap();
    assert_eq!(image.id.as_str(), made.id());
    assert_eq!(image.tags, [format!("{name}:1")]);
    assert_eq!(image.digests, [format!("{name}@{}", made.digest())]);
    assert_eq!(store.find(&format!("{name}:1")).unwrap().unwrap(), image);
    let layers = store.layers(&image.id).await.unwrap().directories;
    assert_eq!(fs::read_to_string(layers[0].join("etc/text")).unwrap(), "2");
    assert_eq!(fs::read_to_string(layers[1].join("etc/text")).unwrap(), "1");
    // A second pull only looks whether the tag has moved.
    let n_before = fake.asked().len();
    assert_eq!(pull(&store, &format!("{name}:1")).await.unwrap(), image);
    assert_eq!(fake.asked().len(), n_before + 1);
    let by_digest = format!("{name}@{}", made.digest());
    assert_eq!(pull(&store, &by_digest).await.unwrap(), image);
    assert_eq!(store.find(&by_digest).unwrap().unwrap(), image);
    // A tag beside a digest is not asked for, so nothing is known about it.
    let both = format!("{name}:2@{}", made.digest());
    assert_eq!(pull(&store, &both).await.unwrap(), image);
}

#[tokio::test]
async fn the_store_keeps_the_contract_of_images() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let content = Content::of("a", "1", &Made::simple("x"));
    let fake = Fake::start(move |asked| content.answer(asked));
    let (present, missing) = (format!("{}/a:1", fake.host()), format!("{}/a:2", fake.host()));
    node_api::contract::images::all(&store, &present, &missing).await;
}

#[tokio::test]
async fn an_index_gives_the_image_for_this_machine() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let (own, other) = (Made::simple("own"), Made::simple("other"));
    let entry = |made: &Made, architecture: &str| {
        let mut entry =
            descriptor("application/vnd.docker.distribution.manifest.v2+json", &made.manifest);
        entry["platform"] = json!({"os": "linux", "architecture": architecture});
        entry
    };
    let index = json!({"manifests": [entry(&other, "z80"), entry(&own, architecture())]});
    let index = serde_json::to_vec(&index).unwrap();
    let mut content = Content::of("a", "own", &own);
    content.add_manifest("a", "1", &index);
    let none = serde_json::to_vec(&json!({"manifests": [entry(&other, "z80")]})).unwrap();
    content.add_manifest("a", "none", &none);
    let fake = Fake::start(move |asked| content.answer(asked));
    let image = pull(&store, &format!("{}/a:1", fake.host())).await.unwrap();
    assert_eq!(image.id.as_str(), own.id());
    assert_eq!(image.digests, [format!("{}/a@{}", fake.host(), Digest::of(&index))]);
    let err = pull(&store, &format!("{}/a:none", fake.host())).await.unwrap_err().to_string();
    assert!(err.contains("no match for platform"), "{err}");
}

#[tokio::test]
async fn what_is_not_there_is_said_as_containerd_says_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let fake = Fake::start(|asked| Content::default().answer(asked));
    let name = format!("{}/a:1", fake.host());
    let err = pull(&store, &name).await.unwrap_err();
    assert!(matches!(err, Error::NotFound { .. }));
    assert_eq!(
        err.to_string(),
        format!(
            "failed to pull and unpack image \"{name}\": failed to resolve reference \"{name}\": \
             {name}: not found"
        )
    );
    assert_eq!(fake.n_asked("manifests"), 1, "what is not there is not asked for again");
    let err = pull(&store, "xebec.local/other").await.unwrap_err();
    assert!(matches!(err, Error::NotFound { .. }));
    let err = pull(&store, "No Name").await.unwrap_err();
    assert!(matches!(err, Error::InvalidName { .. }));
}

#[tokio::test]
async fn a_registry_that_is_gone_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    drop(listener);
    let err = pull(&store, &format!("{host}/a:1")).await.unwrap_err();
    assert!(matches!(err, Error::Unavailable { .. }));
    assert_eq!(
        stdx::error_chain(&err),
        format!(
            "failed to pull and unpack image \"{host}/a:1\": registry {host} cannot be reached: \
             failed to resolve reference \"{host}/a:1\": failed to do request: \
             Get \"https://{host}/v2/a/manifests/1\": dial tcp {host}: connect: connection refused"
        )
    );
}

/// Nothing of an image that failed can be found, but whole layers may stay for the next try.
async fn check_wrong(change: impl FnOnce(&Made, &mut Content), reference: &str, expected: &str) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let made = Made::simple("text");
    let mut content = Content::of("a", "1", &made);
    change(&made, &mut content);
    let fake = Fake::start(move |asked| content.answer(asked));
    let reference = reference.replace("DIGEST", &made.digest());
    let err = pull(&store, &format!("{}/{reference}", fake.host())).await.unwrap_err();
    let err = stdx::error_chain(&err);
    assert!(err.contains(expected), "{err}");
    assert!(store.list().is_empty());
    for name in ["layers", "blobs"] {
        assert_eq!(fs::read_dir(directory.path().join(name)).unwrap().count(), 0, "{err}");
    }
}

#[tokio::test]
async fn every_digest_is_checked() {
    if !is_root() {
        return;
    }
    let other = Made::simple("other");
    let wrong_manifest = |_: &Made, content: &mut Content| {
        content.manifests.values_mut().for_each(|it| it.push(b' '));
    };
    check_wrong(wrong_manifest, "a@DIGEST", "manifest has unexpected digest").await;
    let wrong_config = |made: &Made, content: &mut Content| {
        content.blobs.insert(made.id(), other.config.clone());
    };
    check_wrong(wrong_config, "a:1", "configuration has unexpected digest").await;
    let wrong_layer = |made: &Made, content: &mut Content| {
        let digest = Digest::of(&made.layers[0]).to_string();
        let mut evil = made.layers[0].clone();
        // The time in gzip's header: the same content, but not the same bytes.
        evil[4] ^= 1;
        content.blobs.insert(digest, evil);
    };
    check_wrong(wrong_layer, "a:1", "layer has unexpected digest").await;
    let longer_layer = |made: &Made, content: &mut Content| {
        let digest = Digest::of(&made.layers[0]).to_string();
        content.blobs.insert(digest, [made.layers[0].clone(), vec![0; 10]].concat());
    };
    check_wrong(longer_layer, "a:1", "the answer has more than").await;
    let no_layer = |made: &Made, content: &mut Content| {
        content.blobs.remove(&Digest::of(&made.layers[0]).to_string());
    };
    check_wrong(no_layer, "a:1", "its registry has no blob").await;
    let huge = |_: &Made, content: &mut Content| {
        content.manifests.values_mut().for_each(|it| it.resize(5 << 20, b' '));
    };
    check_wrong(huge, "a:1", "the answer has more than 4194304 bytes").await;
}

#[tokio::test]
async fn a_broken_download_goes_on_where_it_broke() {
    if !is_root() {
        return;
    }
    for knows_ranges in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let made = Made::new(&[(large_layer(), gzip)], "x");
        let content = Content::of("a", "1", &made);
        let layer = Digest::of(&made.layers[0]).to_string();
        let path = format!("blobs/{layer}");
        let cut = path.clone();
        let fake = Fake::start(move |asked| {
            let mut asked = asked.clone();
            if !knows_ranges {
                asked.headers.remove("range");
            }
            let answer = content.answer(&asked);
            match asked.path.ends_with(&cut) {
                true if asked.n_before == 0 => answer.ending(End::CutAfter(100_000)),
                true if asked.n_before == 1 => answer.ending(End::SilentAfter(120_000)),
                _ => answer,
            }
        });
        let image = pull(&store, &format!("{}/a:1", fake.host())).await.unwrap();
        assert_eq!(image.size, 300_000);
        assert_eq!(fake.n_asked(&path), 3);
        let ranges: Vec<_> =
            fake.asked().iter().filter_map(|it| it.headers.get("range").cloned()).collect();
        assert_eq!(ranges.len(), 2);
        assert!(ranges[0].starts_with("bytes=") && ranges[0] != ranges[1] || !knows_ranges);
    }
}

#[tokio::test]
async fn tries_are_bounded_and_only_passing_failures_are_tried_again() {
    let check = async |status: u16, n_asked: usize, expected: &str| {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let fake = Fake::start(move |_| Answer::new(status, "oops"));
        let err = pull(&store, &format!("{}/a:1", fake.host())).await.unwrap_err();
        let err = stdx::error_chain(&err);
        assert!(err.contains(expected), "{err}");
        assert_eq!(fake.n_asked("manifests"), n_asked, "{status}");
    };
    check(503, 3, "unexpected status from GET request: 503 Service Unavailable").await;
    check(429, 3, "429 Too Many Requests").await;
    check(400, 1, "400 Bad Request").await;
    check(403, 1, "pull access denied, repository does not exist or may require authorization")
        .await;
}

#[tokio::test]
async fn a_registry_that_falls_silent_does_not_hold_a_pull_forever() {
    let directory = tempfile::tempdir().unwrap();
    let store = open_with(&directory, |it| it.limits.timeout_idle = Duration::from_millis(50));
    let made = Made::simple("x");
    let content = Content::of("a", "1", &made);
    let fake = Fake::start(move |asked| content.answer(asked).ending(End::SilentAfter(10)));
    let err = pull(&store, &format!("{}/a:1", fake.host())).await.unwrap_err();
    let err = stdx::error_chain(&err);
    assert!(err.contains("i/o timeout: the server sent nothing for 50ms"), "{err}");
    assert_eq!(fake.n_asked("manifests"), 3);
}

#[tokio::test]
async fn it_works_again_when_the_registry_does() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let content = Content::of("a", "1", &Made::simple("x"));
    let fake = Fake::start(move |asked| match asked.n_before {
        0 | 1 => Answer::new(500, ""),
        _ => content.answer(asked),
    });
    pull(&store, &format!("{}/a:1", fake.host())).await.unwrap();
}

#[tokio::test]
async fn a_token_is_fetched_with_the_credentials_that_are_good() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let content = Content::of("a", "1", &Made::simple("x"));
    // base64 of `user:right`.
    let right = "Basic dXNlcjpyaWdodA==";
    let tokens = Fake::start(move |asked| match asked.headers.get("authorization") {
        Some(it) if it == right => Answer::new(200, r#"{"token":"t0ken"}"#),
        _ => Answer::new(401, r#"{"errors":[{"code":"UNAUTHORIZED","message":"wrong"}]}"#),
    });
    let realm = format!("http://{}/token", tokens.host());
    let fake = Fake::start(move |asked| match asked.headers.get("authorization") {
        Some(it) if it == "Bearer t0ken" => content.answer(asked),
        _ => Answer::new(401, "").with(
            "www-authenticate",
            format!(r#"Bearer realm="{realm}",service="s",scope="repository:a:pull""#),
        ),
    });
    let name = format!("{}/a:1", fake.host());
    let err = pull(&store, &name).await.unwrap_err();
    assert!(matches!(err, Error::Denied { .. }), "{err}");
    let message = "failed to fetch token: 401 Unauthorized: server message: unauthorized: wrong";
    assert!(err.to_string().contains(message), "{err}");
    let err = pull_as(&store, &name, vec![credentials("user", "bad")]).await.unwrap_err();
    assert!(matches!(err, Error::Denied { .. }), "{err}");
    let elsewhere =
        Credentials { registry: Some("other.x".to_owned()), ..credentials("user", "right") };
    pull_as(&store, &name, vec![elsewhere]).await.unwrap_err();
    let both = vec![credentials("user", "bad"), credentials("user", "right")];
    pull_as(&store, &name, both).await.unwrap();
    let token = &tokens.asked()[0].path;
    assert_eq!(token, "/token?service=s&scope=repository%3Aa%3Apull");
}

#[tokio::test]
async fn basic_credentials_are_given_when_asked_for() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let content = Content::of("a", "1", &Made::simple("x"));
    let fake = Fake::start(move |asked| match asked.headers.get("authorization") {
        Some(it) if it == "Basic dXNlcjpyaWdodA==" => content.answer(asked),
        _ => Answer::new(401, "").with("www-authenticate", "Basic realm=\"x\""),
    });
    let name = format!("{}/a:1", fake.host());
    assert!(matches!(pull(&store, &name).await.unwrap_err(), Error::Denied { .. }));
    pull_as(&store, &name, vec![credentials("user", "right")]).await.unwrap();
}

#[tokio::test]
async fn redirects_are_followed_without_the_credentials() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let made = Made::simple("x");
    let content = Content::of("a", "1", &made);
    let blobs = content.clone();
    let elsewhere = Fake::start(move |asked| blobs.answer(asked));
    let target = elsewhere.host();
    let fake = Fake::start(move |asked| {
        if !asked.headers.contains_key("authorization") {
            return Answer::new(401, "").with("www-authenticate", "Basic realm=\"x\"");
        }
        match asked.path.contains("/blobs/") {
            true => Answer::new(307, "").with("location", format!("http://{target}{}", asked.path)),
            false => content.answer(asked),
        }
    });
    let name = format!("{}/a:1", fake.host());
    pull_as(&store, &name, vec![credentials("user", "secret")]).await.unwrap();
    assert_eq!(elsewhere.asked().len(), 2);
    assert!(elsewhere.asked().iter().all(|it| !it.headers.contains_key("authorization")));
}

#[tokio::test]
async fn redirects_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let fake = Fake::start(|asked| Answer::new(302, "").with("location", asked.path.clone()));
    let err = pull(&store, &format!("{}/a:1", fake.host())).await.unwrap_err();
    let err = stdx::error_chain(&err);
    assert!(err.ends_with("stopped after 5 redirects"), "{err}");
    let fake = Fake::start(|_| Answer::new(302, "").with("location", "file:///etc/passwd"));
    let err = pull(&store, &format!("{}/a:1", fake.host())).await.unwrap_err();
    let err = stdx::error_chain(&err);
    assert!(err.contains("redirected to \"file:///etc/passwd\", which is refused"), "{err}");
}

#[tokio::test]
async fn pulls_at_the_same_time_share_what_they_can() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let shared = large_layer();
    let one = Made::new(&[(shared.clone(), gzip), (tar(&[("one", b"1")]), gzip)], "one");
    let two = Made::new(&[(shared.clone(), gzip), (tar(&[("two", b"2")]), gzip)], "two");
    let mut content = Content::of("one", "1", &one);
    content.add("two", "1", &two);
    let fake = Fake::start(move |asked| content.answer(asked));
    let names: Vec<String> = ["one", "one", "one", "two", "two"]
        .iter()
        .map(|it| format!("{}/{it}:1", fake.host()))
        .collect();
    let pulls = names.iter().map(|it| pull(&store, it));
    for image in futures_util::future::join_all(pulls).await {
        image.unwrap();
    }
    assert_eq!(fake.n_asked("one/manifests"), 1);
    assert_eq!(fake.n_asked("two/manifests"), 1);
    assert_eq!(fake.n_asked(&format!("blobs/{}", Digest::of(&one.layers[0]))), 1);
    // Those who share a failure all learn why.
    let missing = format!("{}/missing:1", fake.host());
    let pulls = (0..3).map(|_| pull(&store, &missing));
    for outcome in futures_util::future::join_all(pulls).await {
        assert!(matches!(outcome, Err(Error::NotFound { .. })));
    }
    assert_eq!(fake.n_asked("missing/manifests"), 1);
}

/// Who gives up a pull leaves nothing; who still waits for it gets it.
#[tokio::test]
async fn a_pull_that_is_given_up_hurts_nobody() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let made = Made::new(&[(large_layer(), gzip)], "x");
    let layer = Digest::of(&made.layers[0]).to_string();
    let content = Content::of("a", "1", &made);
    let fake = Fake::start(move |asked| match asked.n_before {
        0 if asked.path.ends_with(&layer) => {
            content.answer(asked).ending(End::SilentAfter(100_000))
        }
        _ => content.answer(asked),
    });
    let name = format!("{}/a:1", fake.host());
    let mut given_up = Box::pin(pull(&store, &name));
    let mut waiting = Box::pin(pull(&store, &name));
    // Far enough that the layer is under way.
    loop {
        let step = tokio::time::timeout(Duration::from_millis(5), &mut given_up).await;
        assert!(step.is_err());
        if fake.n_asked("blobs") == 2 {
            break;
        }
    }
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut waiting).await.is_err());
    drop(given_up);
    waiting.await.unwrap();
    assert_eq!(fake.n_asked("manifests"), 1);
    assert!(store.find(&name).unwrap().is_some());
}

#[tokio::test]
async fn https_is_checked_against_the_certificates_that_are_trusted() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let content = Content::of("a", "1", &Made::simple("x"));
    let fake = Fake::start_with(Some(Arc::new(tls)), Arc::new(move |asked| content.answer(asked)));
    let name = format!("{}/a:1", fake.host());
    // The system does not know this certificate.
    let err = pull(&open(&directory), &name).await.unwrap_err();
    let err = stdx::error_chain(&err);
    assert!(err.contains("tls: failed to verify certificate"), "{err}");
    let trusted = directory.path().join("trusted.pem");
    fs::write(&trusted, made.cert.pem()).unwrap();
    let store = open_with(&directory, |it| it.certificates = Some(trusted));
    pull(&store, &name).await.unwrap();
}

//! A registry in this process whose every byte is in the hands of the test. Blocking and simple: a
//! thread for each connection, one answer on each.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use images::Digest;

use crate::content::Made;

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    /// How often this path was asked for before.
    pub(crate) n_before: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) end: End,
}

/// How the body ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Whole,
    /// The connection closes after so many bytes.
    CutAfter(usize),
    /// Nothing comes after so many bytes, and the connection stays.
    SilentAfter(usize),
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), end: End::Whole }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}

type Handler = dyn Fn(&Asked) -> Answer + Send + Sync;

pub(crate) struct Fake {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    is_done: Arc<AtomicBool>,
}

pub(crate) type Tls = Arc<rustls::ServerConfig>;

impl Fake {
    pub(crate) fn start(handler: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_with(None, Arc::new(handler))
    }

    pub(crate) fn start_with(tls: Option<Tls>, handler: Arc<Handler>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fake = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
            is_done: Arc::default(),
        };
        let (asked, is_done) = (fake.asked.clone(), fake.is_done.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                if is_done.load(Ordering::SeqCst) {
                    return;
                }
                let (tls, handler) = (tls.clone(), handler.clone());
                let (asked, is_done) = (asked.clone(), is_done.clone());
                std::thread::spawn(move || match tls {
                    None => {
                        if is_plain(&stream) {
                            answer(stream, &*handler, &asked, &is_done);
                        }
                    }
                    Some(tls) => {
                        let session = rustls::ServerConnection::new(tls).unwrap();
                        let stream = rustls::StreamOwned::new(session, stream);
                        answer(stream, &*handler, &asked, &is_done);
                    }
                });
            }
        });
        fake
    }

    /// Host and port.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn n_asked(&self, path: &str) -> usize {
        self.asked().iter().filter(|it| it.path.contains(path)).count()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.is_done.store(true, Ordering::SeqCst);
        // Wakes the listener.
        drop(TcpStream::connect(self.address));
    }
}

/// Who begins with TLS is told that this is HTTP, as servers do.
fn is_plain(mut stream: &TcpStream) -> bool {
    let mut first = [0];
    let n = stream.peek(&mut first).unwrap_or(0);
    if n == 1 && first[0] == 0x16 {
        let text = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTPS request to an HTTP server";
        let _ = stream.write_all(text.as_bytes());
        return false;
    }
    n == 1
}

fn answer(
    mut stream: impl Read + Write,
    handler: &Handler,
    asked: &Mutex<Vec<Asked>>,
    is_done: &AtomicBool,
) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let headers = lines
        .filter_map(|it| it.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let request = {
        let mut asked = asked.lock().unwrap();
        let n_before = asked.iter().filter(|it| it.path == path).count();
        let request = Asked { path, headers, n_before };
        asked.push(request.clone());
        request
    };
    let answer = handler(&request);
    let mut head = format!(
        "HTTP/1.1 {} X\r\ncontent-length: {}\r\nconnection: close\r\n",
        answer.status,
        answer.body.len()
    );
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let n_sent = match answer.end {
        End::Whole => answer.body.len(),
        End::CutAfter(n) | End::SilentAfter(n) => n,
    };
    let sent = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(&answer.body[..n_sent]))
        .and_then(|()| stream.flush());
    if sent.is_ok() && matches!(answer.end, End::SilentAfter(_)) {
        // Until the client has enough of it.
        while !is_done.load(Ordering::SeqCst) && stream.read(&mut byte).is_ok_and(|n| n > 0) {}
    }
}

/// What a good registry answers.
#[derive(Clone, Default)]
pub(crate) struct Content {
    /// By `path/manifests/reference`.
    pub(crate) manifests: BTreeMap<String, Vec<u8>>,
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
}

impl Content {
    pub(crate) fn of(path: &str, tag: &str, made: &Made) -> Self {
        let mut content = Self::default();
        content.add(path, tag, made);
        content
    }

    pub(crate) fn add(&mut self, path: &str, tag: &str, made: &Made) {
        self.add_manifest(path, tag, &made.manifest);
        self.blobs.extend(made.blobs());
    }

    pub(crate) fn add_manifest(&mut self, path: &str, tag: &str, manifest: &[u8]) {
        for name in [tag.to_owned(), Digest::of(manifest).to_string()] {
            self.manifests.insert(format!("{path}/manifests/{name}"), manifest.to_vec());
        }
    }

    pub(crate) fn answer(&self, asked: &Asked) -> Answer {
        let path = asked.path.strip_prefix("/v2/").unwrap_or_default();
        if let Some(manifest) = self.manifests.get(path) {
            return Answer::new(200, manifest.clone());
        }
        let blob = path.split_once("/blobs/").and_then(|(_, digest)| self.blobs.get(digest));
        let Some(blob) = blob else {
            let code = if path.contains("/blobs/") { "BLOB_UNKNOWN" } else { "MANIFEST_UNKNOWN" };
            let body = format!(r#"{{"errors":[{{"code":"{code}","message":"unknown"}}]}}"#);
            return Answer::new(404, body);
        };
        let start = asked.headers.get("range").and_then(|it| it.strip_prefix("bytes="));
        match start.and_then(|it| it.trim_end_matches('-').parse::<usize>().ok()) {
            Some(start) => Answer::new(206, &blob[start..])
                .with("content-range", format!("bytes {start}-{}/{}", blob.len() - 1, blob.len())),
            None => Answer::new(200, blob.clone()),
        }
    }
}

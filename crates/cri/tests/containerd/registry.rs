//! As little of a registry as a pull needs: one image of one name.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::image::{Image, digest};

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// Serves `box:1` until the runtime ends. Its port.
pub(crate) async fn serve(image: Image) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let image = Arc::new(image);
    #[expect(clippy::disallowed_methods, reason = "ends with the test")]
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let image = image.clone();
            tokio::spawn(async move { answer_all(stream, &image).await });
        }
    });
    port
}

async fn answer_all(stream: TcpStream, image: &Image) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if stream.read_line(&mut first).await.unwrap_or(0) == 0 {
            return;
        }
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let mut words = first.split(' ');
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let (status, kind, body) = answer(path, image);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Docker-Content-Digest: {}\r\n\r\n",
            body.len(),
            digest(&body)
        );
        let _ = stream.write_all(head.as_bytes()).await;
        if method == "GET" {
            let _ = stream.write_all(&body).await;
        }
    }
}

fn answer(path: &str, image: &Image) -> (&'static str, &'static str, Vec<u8>) {
    let manifest = manifest(image);
    let bytes = "application/octet-stream";
    match path.strip_prefix("/v2/") {
        Some("") => ("200 OK", "application/json", b"{}".to_vec()),
        Some("box/manifests/1") => ("200 OK", MANIFEST, manifest),
        Some(it) if it == format!("box/manifests/{}", digest(&manifest)) => {
            ("200 OK", MANIFEST, manifest)
        }
        Some(it) if it == format!("box/blobs/{}", digest(&image.config)) => {
            ("200 OK", bytes, image.config.clone())
        }
        Some(it) if it == format!("box/blobs/{}", digest(&image.layer)) => {
            ("200 OK", bytes, image.layer.clone())
        }
        _ => (
            "404 Not Found",
            "application/json",
            br#"{"errors":[{"code":"MANIFEST_UNKNOWN"}]}"#.to_vec(),
        ),
    }
}

fn manifest(image: &Image) -> Vec<u8> {
    format!(
        r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","config":{{"mediaType":"application/vnd.docker.container.image.v1+json","size":{},"digest":"{}"}},"layers":[{{"mediaType":"application/vnd.docker.image.rootfs.diff.tar","size":{},"digest":"{}"}}]}}"#,
        image.config.len(),
        digest(&image.config),
        image.layer.len(),
        digest(&image.layer)
    )
    .into_bytes()
}

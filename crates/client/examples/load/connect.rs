//! Connections to the server that a kubeconfig names, and the least of HTTP/1.1 that a load needs:
//! no client library takes part in what is measured.

use std::path::Path;
use std::sync::Arc;

use client::kubeconfig::{self, Source};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Result;

pub(crate) struct Target {
    pub(crate) host: String,
    address: String,
    name: ServerName<'static>,
    config: rustls::ClientConfig,
    token: Option<String>,
}

impl Target {
    pub(crate) fn read(path: &str) -> Result<Self> {
        let context = kubeconfig::pick(&std::fs::read_to_string(path)?, None)?;
        let folder = Path::new(path).parent().unwrap_or_else(|| Path::new("."));
        let bytes = |source: &Source| match source {
            Source::Inline(bytes) => Ok(bytes.clone()),
            Source::File(name) => std::fs::read(folder.join(name)),
        };
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&bytes(
            context.ca.as_ref().ok_or("the kubeconfig names no authority")?,
        )?) {
            roots.add(certificate?)?;
        }
        let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
        let config = match (&context.client_certificate, &context.client_key) {
            (Some(certificate), Some(key)) => {
                let chain = CertificateDer::pem_slice_iter(&bytes(certificate)?)
                    .collect::<std::result::Result<Vec<_>, _>>()?;
                let key = PrivateKeyDer::from_pem_slice(&bytes(key)?)?;
                builder.with_client_auth_cert(chain, key)?
            }
            _ => builder.with_no_client_auth(),
        };
        let token = context.token.as_ref().map(bytes).transpose()?;
        let token = token.map(String::from_utf8).transpose()?;
        let address = context.server.strip_prefix("https://").ok_or("https:// is expected")?;
        let address = address.trim_end_matches('/').to_owned();
        let host = address.rsplit_once(':').map_or(address.as_str(), |it| it.0).to_owned();
        let name = context.tls_server_name.clone().unwrap_or_else(|| host.clone());
        Ok(Self { host, address, name: ServerName::try_from(name)?, config, token })
    }

    /// `protocol` as TLS negotiates it.
    pub(crate) async fn dial(&self, protocol: &[u8]) -> Result<TlsStream<TcpStream>> {
        let mut config = self.config.clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        Ok(TlsConnector::from(Arc::new(config)).connect(self.name.clone(), stream).await?)
    }

    pub(crate) fn authorization(&self) -> Option<String> {
        self.token.as_ref().map(|it| format!("Bearer {}", it.trim()))
    }

    /// A whole request as bytes.
    pub(crate) fn request(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let authorization = self.authorization();
        let authorization =
            authorization.map(|it| format!("authorization: {it}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nuser-agent: load/1\r\n{authorization}\
             content-type: application/json\r\naccept: application/json\r\ncontent-length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        [head.as_bytes(), body].concat()
    }
}

/// One connection, one request after the other.
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

/// Longer bodies are passed over.
const KEPT_MAX: usize = 64 << 10;

impl Connection {
    pub(crate) async fn open(target: &Target) -> Result<Self> {
        Ok(Self { stream: target.dial(b"http/1.1").await?, buffer: Vec::with_capacity(64 << 10) })
    }

    /// The status and how many bytes the body has; the body itself is passed over.
    pub(crate) async fn call(&mut self, request: &[u8]) -> Result<(u16, usize)> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        self.buffer.clear();
        let head = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more().await?;
        };
        let text = std::str::from_utf8(&self.buffer[..head])?.to_ascii_lowercase();
        let code = text.get(9..12).ok_or("no status")?.parse()?;
        let length = text.split("content-length: ").nth(1).and_then(|it| it.split('\r').next());
        let body = match length {
            Some(length) => {
                let length: usize = length.parse()?;
                let mut read = self.buffer.len() - head;
                while read < length {
                    if length > KEPT_MAX {
                        self.buffer.clear();
                    }
                    read += self.read_more().await?;
                }
                length
            }
            None => self.read_chunks(head).await?,
        };
        Ok((code, body))
    }

    /// The body of the last answer, if it was short.
    pub(crate) fn body(&self, length: usize) -> &[u8] {
        &self.buffer[self.buffer.len().saturating_sub(length)..]
    }

    async fn read_chunks(&mut self, head: usize) -> Result<usize> {
        let mut tail: Vec<u8> = self.buffer[head..].to_vec();
        let mut read = tail.len();
        while !tail.ends_with(b"0\r\n\r\n") {
            self.buffer.clear();
            read += self.read_more().await?;
            let keep = tail.len().saturating_sub(8);
            tail.drain(..keep);
            tail.extend_from_slice(&self.buffer[self.buffer.len().saturating_sub(8)..]);
        }
        Ok(read)
    }

    async fn read_more(&mut self) -> Result<usize> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the server closed the connection".into()),
            n => Ok(n),
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|it| it == what)
}

//! One HTTP/2 connection with a few clients, each of which has one put under way. Knows of the
//! protocol what this takes: requests never refer to headers of earlier ones, and of an answer only
//! its frames are looked at. One with a message is a success: refusals have none.

use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use etcd::wire::frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{KEYS, VALUE_BYTES, put};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

pub(super) struct Connection {
    tcp: TcpStream,
    clients: Vec<Client>,
    /// What the server still takes on this connection.
    window: i64,
    next_stream: u32,
    output: Vec<u8>,
    /// Headers and message of a request, ready to be sent; the key's digits are put in.
    headers: Vec<u8>,
    message: Vec<u8>,
    digits: usize,
}

struct Client {
    next_key: usize,
    stream: u32,
    started: Instant,
    has_message: bool,
}

fn push_frame(output: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    output.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
    output.extend_from_slice(payload);
}

/// `POST` over `http` to the method for puts, as gRPC; nothing to be remembered.
fn render_headers() -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    let mut literal = |name: &[u8], value: &str| {
        block.extend_from_slice(name);
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
    };
    literal(&[0x04], "/etcdserverpb.KV/Put");
    literal(&[0x01], "127.0.0.1");
    literal(&[0x0f, 0x10], "application/grpc");
    literal(b"\x00\x02te", "trailers");
    block
}

impl Connection {
    pub(super) async fn open(port: u16, first_client: usize, n_clients: usize) -> Result<Self> {
        let mut tcp = TcpStream::connect(("127.0.0.1", port)).await?;
        tcp.set_nodelay(true)?;
        let mut hello = PREFACE.to_vec();
        push_frame(&mut hello, SETTINGS, 0, 0, b"");
        push_frame(&mut hello, WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
        tcp.write_all(&hello).await?;
        let message = frame::encode(&put(0, &vec![b'x'; VALUE_BYTES].into())).to_vec();
        let digits = message.windows(8).position(|it| it == b"00000000").context("a key")?;
        let client = |number: usize| Client {
            next_key: number * 7919,
            stream: 0,
            started: Instant::now(),
            has_message: false,
        };
        Ok(Self {
            tcp,
            clients: (first_client..first_client + n_clients).map(client).collect(),
            window: 65_535,
            next_stream: 1,
            output: Vec::new(),
            headers: render_headers(),
            message,
            digits,
        })
    }

    /// Puts until then; returns how long each took, in milliseconds.
    pub(super) async fn put_until(mut self, until: Instant) -> Result<Vec<f64>> {
        let (mut latencies, mut input) = (Vec::new(), Vec::with_capacity(64 << 10));
        for client in 0..self.clients.len() {
            self.start(client);
        }
        let mut is_over = false;
        while !is_over || self.clients.iter().any(|it| it.stream != 0) {
            self.tcp.write_all(&self.output).await?;
            self.output.clear();
            ensure!(self.tcp.read_buf(&mut input).await? > 0, "the server closed the connection");
            let mut at = 0;
            while let Some(head) = input.get(at..at + HEAD) {
                let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                let (kind, flags) = (head[3], head[4]);
                let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
                let Some(payload) = input.get(at + HEAD..at + HEAD + len) else { break };
                at += HEAD + len;
                let finished = self.receive((kind, flags, stream), payload)?;
                if let Some(client) = finished {
                    let it = &mut self.clients[client];
                    latencies.push(it.started.elapsed().as_secs_f64() * 1000.0);
                    it.stream = 0;
                }
            }
            input.drain(..at);
            is_over = Instant::now() >= until;
            for client in 0..self.clients.len() {
                if !is_over && self.clients[client].stream == 0 {
                    self.start(client);
                }
            }
        }
        Ok(latencies)
    }

    /// Sends the client's next request, unless the server has to take others first.
    fn start(&mut self, client: usize) {
        let len = self.message.len() as i64;
        if self.window < len {
            return;
        }
        self.window -= len;
        let it = &mut self.clients[client];
        let mut key = it.next_key % KEYS;
        for digit in self.message[self.digits..self.digits + 8].iter_mut().rev() {
            *digit = b'0' + (key % 10) as u8;
            key /= 10;
        }
        it.next_key += 1;
        it.stream = self.next_stream;
        it.has_message = false;
        it.started = Instant::now();
        self.next_stream += 2;
        push_frame(&mut self.output, HEADERS, END_HEADERS, it.stream, &self.headers);
        push_frame(&mut self.output, DATA, END_STREAM, it.stream, &self.message);
    }

    /// Takes note of a frame; returns the client whose put it ends.
    fn receive(
        &mut self,
        (kind, flags, stream): (u8, u8, u32),
        payload: &[u8],
    ) -> Result<Option<usize>> {
        let client = self.clients.iter().position(|it| it.stream == stream);
        match (kind, client) {
            (DATA, Some(client)) => self.clients[client].has_message |= !payload.is_empty(),
            (HEADERS, Some(client)) if flags & END_STREAM != 0 => {
                ensure!(self.clients[client].has_message, "a put was refused");
                return Ok(Some(client));
            }
            (SETTINGS, _) if flags & ACK == 0 => {
                push_frame(&mut self.output, SETTINGS, ACK, 0, b"");
            }
            (PING, _) if flags & ACK == 0 => push_frame(&mut self.output, PING, ACK, 0, payload),
            (WINDOW_UPDATE, _) if stream == 0 => {
                let more = payload.try_into().context("a number")?;
                self.window += i64::from(u32::from_be_bytes(more));
            }
            (RST_STREAM, Some(_)) => bail!("the server reset a call"),
            (GOAWAY, _) => bail!("the server ends the connection"),
            _ => {}
        }
        Ok(None)
    }
}

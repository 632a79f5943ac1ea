//! Bodies of answers. They go out in pieces, each made when the one before has been taken, so that
//! an answer that nobody reads costs no more than what it is made of: a list shares its items with
//! the cache. The seat of the request is kept to the end.

use std::collections::VecDeque;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use api::Stored;
use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;

use super::Body;
use crate::flow::Seat;

/// The size of a piece.
const PIECE: usize = 64 * 1024;
/// From this size on an item goes out as it is in the cache; smaller ones are copied together.
const SHARED_MIN: usize = 16 * 1024;

/// What an answer consists of.
pub(super) enum Content {
    Whole(Bytes),
    List(Listed),
}

/// The JSON of a list: its head, its items with commas between them, and its end.
pub(super) struct Listed {
    head: Bytes,
    items: VecDeque<Arc<Stored>>,
    n_items: usize,
    is_ended: bool,
    /// What is left of a piece that is too large to go at once.
    rest: Bytes,
}

const TAIL: &[u8] = b"]}";

impl Listed {
    /// `head` ends with the bracket that opens the items.
    pub(super) fn new(head: String, items: Vec<Arc<Stored>>) -> Self {
        let n_items = items.len();
        Self {
            head: head.into(),
            items: items.into(),
            n_items,
            is_ended: false,
            rest: Bytes::new(),
        }
    }

    fn len(&self) -> usize {
        let items: usize = self.items.iter().map(|it| it.bytes.len()).sum();
        self.head.len() + items + self.n_items.saturating_sub(1) + TAIL.len()
    }

    fn next(&mut self) -> Option<Bytes> {
        if !self.rest.is_empty() {
            return Some(cut(&mut self.rest));
        }
        if self.is_ended {
            return None;
        }
        let mut piece = BytesMut::from(&std::mem::take(&mut self.head)[..]);
        while piece.len() < PIECE {
            let Some(item) = self.items.pop_front() else {
                piece.extend_from_slice(TAIL);
                self.is_ended = true;
                break;
            };
            if self.items.len() + 1 < self.n_items {
                piece.extend_from_slice(b",");
            }
            if item.bytes.len() >= SHARED_MIN {
                self.rest = item.bytes.clone();
                break;
            }
            piece.extend_from_slice(&item.bytes);
        }
        if piece.is_empty() { Some(cut(&mut self.rest)) } else { Some(piece.freeze()) }
    }
}

fn cut(bytes: &mut Bytes) -> Bytes {
    bytes.split_to(bytes.len().min(PIECE))
}

impl Content {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::List(list) => list.len(),
        }
    }

    /// All of it at once.
    pub(super) fn into_bytes(mut self) -> Bytes {
        if let Self::Whole(bytes) = self {
            return bytes;
        }
        let mut all = BytesMut::with_capacity(self.len());
        while let Some(piece) = self.next() {
            all.extend_from_slice(&piece);
        }
        all.freeze()
    }

    fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Whole(bytes) if bytes.is_empty() => None,
            Self::Whole(bytes) => Some(cut(bytes)),
            Self::List(list) => list.next(),
        }
    }
}

struct Sent {
    content: Content,
    /// What is left to send, if that is known.
    left: Option<u64>,
    gzip: Option<GzEncoder<Vec<u8>>>,
    has_yielded: bool,
    _seat: Seat,
}

pub(super) fn plain(content: Content, seat: Seat) -> Body {
    let left = Some(content.len() as u64);
    Sent { content, left, gzip: None, has_yielded: false, _seat: seat }.boxed_unsync()
}

pub(super) fn gzipped(content: Content, seat: Seat) -> Body {
    let gzip = GzEncoder::new(Vec::new(), Compression::fast());
    Sent { content, left: None, gzip: Some(gzip), has_yielded: false, _seat: seat }.boxed_unsync()
}

impl Sent {
    fn next(&mut self) -> Option<Bytes> {
        let Some(gzip) = &mut self.gzip else { return self.content.next() };
        match self.content.next() {
            // Writing to memory does not fail.
            Some(piece) => {
                let _ = gzip.write_all(&piece);
                Some(std::mem::take(gzip.get_mut()).into())
            }
            None => {
                let rest = self.gzip.take()?.finish().unwrap_or_default();
                self.left = Some(0);
                Some(rest.into())
            }
        }
    }
}

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        loop {
            // Compressing takes long: others get their turn between the pieces.
            if self.gzip.is_some() && !std::mem::replace(&mut self.has_yielded, true) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.has_yielded = false;
            let Some(piece) = self.next() else { return Poll::Ready(None) };
            if let Some(left) = self.left.as_mut() {
                *left = left.saturating_sub(piece.len() as u64);
            }
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        match self.left {
            Some(left) if self.gzip.is_none() => SizeHint::with_exact(left),
            _ => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::Arc;

    use api::{Meta, Stored};
    use bytes::Bytes;
    use http_body::Body as _;
    use http_body_util::BodyExt as _;
    use stdx::Random;

    use super::{Content, Listed, PIECE, SHARED_MIN, gzipped, plain};
    use crate::flow::{Class, Flow, Length, Seat};

    fn listed(sizes: &[usize]) -> (Content, Vec<Arc<Stored>>) {
        let object = |size: &usize| {
            let text = format!("{:?}", "x".repeat(size.saturating_sub(2)));
            Arc::new(Stored::new(Meta::default(), Bytes::from(text)))
        };
        let items: Vec<_> = sizes.iter().map(object).collect();
        (Content::List(Listed::new("{\"items\":[".to_owned(), items.clone())), items)
    }

    #[tokio::test]
    async fn a_seat_is_kept_until_the_answer_was_read_or_dropped() {
        let flow = Flow::new(&Random::from_seed(1));
        let n_seats = flow.n_free();
        let class = Class { schema: "service-accounts", level: "workload-low" };
        let mut bodies = Vec::new();
        for _ in 0..2 {
            let seat = flow.seat(class, Length::Read).await.expect("a seat");
            let content = Content::Whole(vec![b'x'; 1_000_000].into());
            bodies.push(plain(content, seat));
        }
        let read = bodies[0].frame().await.expect("a piece").expect("infallible");
        assert!(read.into_data().expect("data").len() < 100_000);
        assert_eq!(flow.n_free(), n_seats - 2);
        bodies.pop();
        assert_eq!(flow.n_free(), n_seats - 1);
        for body in bodies {
            body.collect().await.expect("infallible");
        }
        assert_eq!(flow.n_free(), n_seats);
    }

    #[tokio::test]
    async fn a_list_is_its_items_whatever_their_sizes() {
        for sizes in [
            &[][..],
            &[2],
            &[10, 20, 30],
            &[SHARED_MIN],
            &[SHARED_MIN, 5, SHARED_MIN * 20, SHARED_MIN - 1, 5],
            &[PIECE - 10, 5, PIECE, PIECE + 1],
        ] {
            let (content, items) = listed(sizes);
            let body = plain(content, Seat::default());
            let said = body.size_hint().exact();
            let bytes = body.collect().await.expect("infallible").to_bytes();
            assert_eq!(said, Some(bytes.len() as u64), "{sizes:?}");
            let texts: Vec<&str> =
                items.iter().map(|it| std::str::from_utf8(&it.bytes).expect("UTF-8")).collect();
            assert_eq!(bytes, format!("{{\"items\":[{}]}}", texts.join(",")), "{sizes:?}");
        }
    }

    #[tokio::test]
    async fn pieces_are_small_and_large_items_are_shared() {
        let (content, items) = listed(&[SHARED_MIN * 10]);
        let mut body = plain(content, Seat::default());
        let mut n_shared = 0;
        while let Some(Ok(frame)) = body.frame().await {
            let piece = frame.into_data().expect("data");
            assert!(piece.len() <= PIECE + SHARED_MIN);
            n_shared += usize::from(items[0].bytes.as_ptr_range().contains(&piece.as_ptr()));
        }
        assert_eq!(n_shared, (SHARED_MIN * 10).div_ceil(PIECE));
    }

    #[tokio::test]
    async fn a_compressed_list_is_the_same_list() {
        let (content, _) = listed(&[100, PIECE * 3, 7]);
        let compressed = gzipped(content, Seat::default()).collect().await.expect("infallible");
        let mut text = String::new();
        let bytes = compressed.to_bytes();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("gzip");
        let (content, _) = listed(&[100, PIECE * 3, 7]);
        let plain = plain(content, Seat::default()).collect().await.expect("infallible").to_bytes();
        assert_eq!(text.as_bytes(), plain);
    }
}

//! A method's path, with the messages that go in and come out.

use std::marker::PhantomData;

pub struct Method<Q, A> {
    pub path: &'static str,
    messages: PhantomData<fn(Q) -> A>,
}

impl<Q, A> Method<Q, A> {
    /// Such as `/package.Service/Name`.
    pub const fn new(path: &'static str) -> Self {
        Self { path, messages: PhantomData }
    }
}

impl<Q, A> Clone for Method<Q, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q, A> Copy for Method<Q, A> {}

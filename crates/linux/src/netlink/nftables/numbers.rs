//! The numbers of `linux/netfilter/nf_tables.h` that we use, under the kernel's names without their
//! prefixes.

pub(super) const SUBSYSTEM: u16 = 10;

pub(super) mod message {
    pub(crate) const NEW_TABLE: u16 = 0;
    pub(crate) const GET_TABLE: u16 = 1;
    pub(crate) const DELETE_TABLE: u16 = 2;
    pub(crate) const NEW_CHAIN: u16 = 3;
    pub(crate) const GET_CHAIN: u16 = 4;
    pub(crate) const DELETE_CHAIN: u16 = 5;
    pub(crate) const NEW_RULE: u16 = 6;
    pub(crate) const GET_RULE: u16 = 7;
    pub(crate) const DELETE_RULE: u16 = 8;
    pub(crate) const NEW_SET: u16 = 9;
    pub(crate) const GET_SET: u16 = 10;
    pub(crate) const DELETE_SET: u16 = 11;
    pub(crate) const NEW_ELEMENTS: u16 = 12;
    pub(crate) const GET_ELEMENTS: u16 = 13;
    pub(crate) const DELETE_ELEMENTS: u16 = 14;
    pub(crate) const NEW_GENERATION: u16 = 15;
}

pub(super) mod list {
    pub(crate) const ELEMENT: u16 = 1;
}

pub(super) mod table {
    pub(crate) const NAME: u16 = 1;
    pub(crate) const FLAGS: u16 = 2;

    pub(crate) const OWNER: u32 = 0x2;
}

pub(super) mod hook {
    pub(crate) const NUMBER: u16 = 1;
    pub(crate) const PRIORITY: u16 = 2;
}

pub(super) mod chain {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const NAME: u16 = 3;
    pub(crate) const HOOK: u16 = 4;
    pub(crate) const POLICY: u16 = 5;
    pub(crate) const TYPE: u16 = 7;
}

pub(super) mod rule {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const CHAIN: u16 = 2;
    pub(crate) const HANDLE: u16 = 3;
    pub(crate) const EXPRESSIONS: u16 = 4;
    pub(crate) const POSITION: u16 = 6;
    pub(crate) const USER_DATA: u16 = 7;
}

pub(super) mod set {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const NAME: u16 = 2;
    pub(crate) const FLAGS: u16 = 3;
    pub(crate) const KEY_TYPE: u16 = 4;
    pub(crate) const KEY_LENGTH: u16 = 5;
    pub(crate) const DATA_TYPE: u16 = 6;
    pub(crate) const DATA_LENGTH: u16 = 7;
    pub(crate) const DESCRIPTION: u16 = 9;
    pub(crate) const ID: u16 = 10;
    pub(crate) const USER_DATA: u16 = 13;

    pub(crate) const DESCRIPTION_SIZE: u16 = 1;
    pub(crate) const DESCRIPTION_CONCATENATION: u16 = 2;
    pub(crate) const FIELD_LENGTH: u16 = 1;

    pub(crate) const INTERVAL: u32 = 0x4;
    pub(crate) const MAP: u32 = 0x8;
    pub(crate) const TIMEOUT: u32 = 0x10;
    /// `NFT_SET_EVAL`: rules add elements.
    pub(crate) const DYNAMIC: u32 = 0x20;
    pub(crate) const CONCATENATION: u32 = 0x80;
}

pub(super) mod elements {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const SET: u16 = 2;
    pub(crate) const LIST: u16 = 3;
}

pub(super) mod element {
    pub(crate) const KEY: u16 = 1;
    pub(crate) const DATA: u16 = 2;
    pub(crate) const FLAGS: u16 = 3;
    pub(crate) const TIMEOUT: u16 = 4;
    pub(crate) const KEY_END: u16 = 10;

    pub(crate) const INTERVAL_END: u32 = 1;
}

pub(super) mod data {
    pub(crate) const VALUE: u16 = 1;
    pub(crate) const VERDICT: u16 = 2;

    pub(crate) const TYPE_VERDICT: u32 = 0xffff_ff00;
}

pub(super) mod verdict {
    pub(crate) const CODE: u16 = 1;
    pub(crate) const CHAIN: u16 = 2;
}

pub(super) mod expression {
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DATA: u16 = 2;
}

pub(super) mod immediate {
    pub(crate) const DATA: u16 = 2;
}

/// Of what iptables brings along: its `match`, and its `target` alike.
pub(super) mod matching {
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DETAILS: u16 = 3;
}

//! Links, addresses and routes (rtnetlink).

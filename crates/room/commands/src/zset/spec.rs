//! The sorted-set part of the command table.

use nagaya_command_spec::spec::{
    ACCESS, BLOCKING, Category, DELETE, DENYOOM, FAST, NOSCRIPT, OW, READONLY, RO, RW, UPDATE, WRITE,
    counted_keys, key, keys_to,
};
use nagaya_exec::entry::{Entry, cmd};

use super::{add, algebra, pop, random, range, scan};

pub(crate) const COMMANDS: &[Entry] = &[
    cmd("BZMPOP", -5, pop::bzmpop)
        .flags(WRITE.and(BLOCKING))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[counted_keys(2, RW.and(ACCESS).and(DELETE))])
        .since("7.0.0")
        .about(
            "Takes the lowest or highest members of the first sorted set that has any, waiting for one.",
            "O(K) + O(M*log(N)) for K keys, M taken of N members",
        ),
    cmd("BZPOPMAX", -3, pop::bzpopmax)
        .flags(WRITE.and(NOSCRIPT).and(FAST).and(BLOCKING))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[keys_to(1, -2, 1, RW.and(ACCESS).and(DELETE))])
        .since("5.0.0")
        .about(
            "Takes the highest member of the first sorted set that has any, waiting for one.",
            "O(log(N)) for N members",
        ),
    cmd("BZPOPMIN", -3, pop::bzpopmin)
        .flags(WRITE.and(NOSCRIPT).and(FAST).and(BLOCKING))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[keys_to(1, -2, 1, RW.and(ACCESS).and(DELETE))])
        .since("5.0.0")
        .about(
            "Takes the lowest member of the first sorted set that has any, waiting for one.",
            "O(log(N)) for N members",
        ),
    cmd("ZADD", -4, add::zadd)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RW.and(UPDATE))])
        .since("1.2.0")
        .about(
            "Adds members with scores, or changes the scores of those that are there.",
            "O(log(N)) per member, for N members",
        ),
    cmd("ZCARD", 2, super::zcard)
        .flags(READONLY.and(FAST))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO)])
        .since("1.2.0")
        .about("Returns the number of members.", "O(1)"),
    cmd("ZCOUNT", 4, range::zcount)
        .flags(READONLY.and(FAST))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.0.0")
        .about(
            "Counts the members whose score lies in a range.",
            "O(log(N)) for N members",
        ),
    cmd("ZDIFF", -3, algebra::zdiff)
        .flags(READONLY)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[counted_keys(1, RO.and(ACCESS))])
        .since("6.2.0")
        .about(
            "Returns what is in the first set and in none of the others.",
            "O(N*K + M*log(M)) for N members in the first of K sets, M of them returned",
        ),
    cmd("ZDIFFSTORE", -4, algebra::zdiffstore)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, OW.and(UPDATE)), counted_keys(2, RO.and(ACCESS))])
        .since("6.2.0")
        .about(
            "Stores what is in the first set and in none of the others.",
            "O(N*K + M*log(M)) for N members in the first of K sets, M of them stored",
        ),
    cmd("ZINCRBY", 4, add::zincrby)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RW.and(ACCESS).and(UPDATE))])
        .since("1.2.0")
        .about("Adds to the score of a member.", "O(log(N)) for N members"),
    cmd("ZINTER", -3, algebra::zinter)
        .flags(READONLY)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[counted_keys(1, RO.and(ACCESS))])
        .since("6.2.0")
        .about(
            "Returns what is in all sets, with its scores joined.",
            "O(N*K + M*log(M)) for N members in the smallest of K sets, M of them returned",
        ),
    cmd("ZINTERCARD", -3, algebra::zintercard)
        .flags(READONLY)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[counted_keys(1, RO.and(ACCESS))])
        .since("7.0.0")
        .about(
            "Counts what is in all sets.",
            "O(N*K) for N members in the smallest of K sets",
        ),
    cmd("ZINTERSTORE", -4, algebra::zinterstore)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, OW.and(UPDATE)), counted_keys(2, RO.and(ACCESS))])
        .since("2.0.0")
        .about(
            "Stores what is in all sets, with its scores joined.",
            "O(N*K + M*log(M)) for N members in the smallest of K sets, M of them stored",
        ),
    cmd("ZLEXCOUNT", 4, range::zlexcount)
        .flags(READONLY.and(FAST))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.8.9")
        .about(
            "Counts the members that lie in a range of bytes.",
            "O(log(N)) for N members",
        ),
    cmd("ZMPOP", -4, pop::zmpop)
        .flags(WRITE)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[counted_keys(1, RW.and(ACCESS).and(DELETE))])
        .since("7.0.0")
        .about(
            "Takes the lowest or highest members of the first sorted set that has any.",
            "O(K) + O(M*log(N)) for K keys, M taken of N members",
        ),
    cmd("ZMSCORE", -3, super::zmscore)
        .flags(READONLY.and(FAST))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("6.2.0")
        .about(
            "Returns the scores of several members.",
            "O(N) for N members asked for",
        ),
    cmd("ZPOPMAX", -2, pop::zpopmax)
        .flags(WRITE.and(FAST))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RW.and(ACCESS).and(DELETE))])
        .since("5.0.0")
        .about(
            "Takes the members with the highest scores.",
            "O(log(N)*M) for M taken of N members",
        ),
    cmd("ZPOPMIN", -2, pop::zpopmin)
        .flags(WRITE.and(FAST))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RW.and(ACCESS).and(DELETE))])
        .since("5.0.0")
        .about(
            "Takes the members with the lowest scores.",
            "O(log(N)*M) for M taken of N members",
        ),
    cmd("ZRANDMEMBER", -2, random::zrandmember)
        .flags(READONLY)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("6.2.0")
        .about(
            "Returns members drawn at random.",
            "O(M*log(N)) for M drawn of N members",
        ),
    cmd("ZRANGE", -4, range::zrange)
        .flags(READONLY)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("1.2.0")
        .about(
            "Returns a range of members, by rank, score or bytes, from either end.",
            "O(log(N)+M) for M returned of N members",
        ),
    cmd("ZRANGEBYLEX", -4, range::zrangebylex)
        .flags(READONLY)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.8.9")
        .about(
            "Returns the members that lie in a range of bytes.",
            "O(log(N)+M) for M returned of N members",
        ),
    cmd("ZRANGEBYSCORE", -4, range::zrangebyscore)
        .flags(READONLY)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("1.0.5")
        .about(
            "Returns the members whose score lies in a range.",
            "O(log(N)+M) for M returned of N members",
        ),
    cmd("ZRANGESTORE", -5, range::zrangestore)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, OW.and(UPDATE)), key(2, RO.and(ACCESS))])
        .since("6.2.0")
        .about(
            "Stores a range of members of a sorted set as another.",
            "O(log(N)+M*log(M)) for M stored of N members",
        ),
    cmd("ZRANK", -3, super::zrank)
        .flags(READONLY.and(FAST))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.0.0")
        .about(
            "Returns how many members order before one.",
            "O(log(N)) for N members",
        ),
    cmd("ZREM", -3, super::zrem)
        .flags(WRITE.and(FAST))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RW.and(DELETE))])
        .since("1.2.0")
        .about("Removes members.", "O(M*log(N)) for M removed of N members"),
    cmd("ZREMRANGEBYLEX", 4, range::zremrangebylex)
        .flags(WRITE)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RW.and(DELETE))])
        .since("2.8.9")
        .about(
            "Removes the members that lie in a range of bytes.",
            "O(log(N)+M) for M removed of N members",
        ),
    cmd("ZREMRANGEBYRANK", 4, range::zremrangebyrank)
        .flags(WRITE)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RW.and(DELETE))])
        .since("2.0.0")
        .about(
            "Removes the members whose rank lies in a range.",
            "O(log(N)+M) for M removed of N members",
        ),
    cmd("ZREMRANGEBYSCORE", 4, range::zremrangebyscore)
        .flags(WRITE)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RW.and(DELETE))])
        .since("1.2.0")
        .about(
            "Removes the members whose score lies in a range.",
            "O(log(N)+M) for M removed of N members",
        ),
    cmd("ZREVRANGE", -4, range::zrevrange)
        .flags(READONLY)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("1.2.0")
        .about(
            "Returns a range of members by rank, highest first.",
            "O(log(N)+M) for M returned of N members",
        ),
    cmd("ZREVRANGEBYLEX", -4, range::zrevrangebylex)
        .flags(READONLY)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.8.9")
        .about(
            "Returns the members that lie in a range of bytes, last first.",
            "O(log(N)+M) for M returned of N members",
        ),
    cmd("ZREVRANGEBYSCORE", -4, range::zrevrangebyscore)
        .flags(READONLY)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.2.0")
        .about(
            "Returns the members whose score lies in a range, highest first.",
            "O(log(N)+M) for M returned of N members",
        ),
    cmd("ZREVRANK", -3, super::zrevrank)
        .flags(READONLY.and(FAST))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.0.0")
        .about(
            "Returns how many members order after one.",
            "O(log(N)) for N members",
        ),
    cmd("ZSCAN", -3, scan::zscan)
        .flags(READONLY)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.8.0")
        .about(
            "Returns members and scores bit by bit, with a cursor to go on from.",
            "O(1) per call, O(N) for all N members",
        ),
    cmd("ZSCORE", 3, super::zscore)
        .flags(READONLY.and(FAST))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("1.2.0")
        .about("Returns the score of a member.", "O(1)"),
    cmd("ZUNION", -3, algebra::zunion)
        .flags(READONLY)
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[counted_keys(1, RO.and(ACCESS))])
        .since("6.2.0")
        .about(
            "Returns what is in any of the sets, with its scores joined.",
            "O(N + M*log(M)) for N members in all sets, M different ones",
        ),
    cmd("ZUNIONSTORE", -4, algebra::zunionstore)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::SORTEDSET)
        .group("sorted_set")
        .keys(&[key(1, OW.and(UPDATE)), counted_keys(2, RO.and(ACCESS))])
        .since("2.0.0")
        .about(
            "Stores what is in any of the sets, with its scores joined.",
            "O(N + M*log(M)) for N members in all sets, M different ones",
        ),
];

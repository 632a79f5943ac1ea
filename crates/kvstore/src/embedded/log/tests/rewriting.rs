//! Rewriting: places stay good while they are held, and what a crash leaves is removed.

use super::*;

#[test]
fn places_of_a_rewritten_segment_are_good_until_they_are_let_go() {
    let disk = Simulated::new(1);
    let (mut log, _) = open(&disk).unwrap();
    write_three_segments(&mut log);
    let reader = log.reader();
    let before: Vec<Frame> = reader.all().map(Result::unwrap).collect();
    let ids: Vec<u32> = reader.segments().iter().map(|it| it.id).collect();
    // A walk that began in the old segment goes on in it, and then in what follows.
    let mut walk = reader.frames(before[1].place);
    assert_eq!(walk.next().unwrap().unwrap().place, before[1].place);
    let rewritten = reader
        .rewrite(&ids[..2], &mut |it| (it.kind == Kind::Commit).then(|| it.body.clone()))
        .unwrap();
    assert_eq!(rewritten.moved.len(), 6);
    for (old, new) in &rewritten.moved {
        let (old, new) = (reader.frame(*old).unwrap(), reader.frame(*new).unwrap());
        assert_eq!((old.kind, old.body), (new.kind, new.body));
    }
    assert_eq!(reader.segments().len(), 2);
    assert!(disk.files().keys().eq(["0000000000000002.log", "0000000000000003.log"]));
    let (old, new) = rewritten.moved[0];
    drop(rewritten);
    assert!(matches!(reader.frame(old), Err(ReadError::Moved)));
    assert!(matches!(reader.frames(old).next(), Some(Err(ReadError::Moved))));
    assert!(reader.frame(new).is_ok());
    let rest: Vec<Place> = walk.map(|it| it.unwrap().place).collect();
    assert_eq!(rest[..3], before[2..5].iter().map(|it| it.place).collect::<Vec<_>>());
    let records = read(&log);
    drop(log);
    assert_eq!(open(&disk).unwrap().1, records);
}

#[test]
fn only_sealed_neighbors_are_joined() {
    let disk = Simulated::new(1);
    let (mut log, _) = open(&disk).unwrap();
    write_three_segments(&mut log);
    let reader = log.reader();
    let ids: Vec<u32> = reader.segments().iter().map(|it| it.id).collect();
    for wrong in [&[][..], &[ids[0], ids[2]], &[ids[1], ids[0]], &ids, &[99]] {
        let result = reader.rewrite(wrong, &mut |it| Some(it.body.clone()));
        assert!(matches!(result, Err(RewriteError::NotNeighbors)), "{wrong:?}");
    }
}

#[test]
fn what_an_interrupted_rewrite_left_is_removed() {
    let (disk, records) = closed();
    let files = disk.files();
    // As if the machine had stopped before the joined ones were removed, and in the next rewrite.
    disk.put("0000000000000002.log", &files["0000000000000001.log"]);
    disk.put("0000000000000004.log.new", b"half a segm");
    let (_, found) = open(&disk).unwrap();
    assert_eq!((found, disk.files()), (records, files));
}

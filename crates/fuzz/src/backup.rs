//! What holds for any bytes as a part of a backup repository.

use talaria_backup::{
    Id, IndexedPack, Kind, ObjectHash, PackedChunk, RepositoryId, check_lease, parse_attestation,
    parse_drill, parse_index, parse_pack, parse_plan, parse_tombstone, parse_verified, write_index,
};

/// The repository of the seeds.
pub const REPOSITORY: RepositoryId = RepositoryId([2; 16]);

/// An index that is read is written the same: it has no second form.
pub fn index(bytes: &[u8]) {
    if let Ok(packs) = parse_index("indexes/1", bytes, REPOSITORY) {
        assert_eq!(write_index(REPOSITORY, &packs).into_bytes(), bytes);
    }
}

/// A small document names nothing more often than it has lines, and is of one kind only.
pub fn signed(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let tombstone = parse_tombstone("forgotten/1", bytes, REPOSITORY);
    let plan = parse_plan("plans/1", bytes, REPOSITORY);
    let lease = check_lease("leases/1", bytes, REPOSITORY);
    let attestation = parse_attestation("attested/1", bytes, REPOSITORY);
    let verified = parse_verified("verified/1", bytes, REPOSITORY);
    let drill = parse_drill("drills/1", bytes, REPOSITORY);
    let kinds = [
        tombstone.is_ok(),
        plan.is_ok(),
        lease.is_ok(),
        attestation.is_ok(),
        verified.is_ok(),
        drill.is_ok(),
    ];
    assert!(kinds.into_iter().filter(|is_one| *is_one).count() <= 1);
    assert!(tombstone.is_ok_and(|names| names.len() < lines) || !kinds[0]);
    assert!(plan.is_ok_and(|packs| packs.len() < lines) || !kinds[1]);
    assert!(attestation.is_ok_and(|names| names.len() < lines) || !kinds[3]);
    let packs = verified.map(|(good, damaged)| good.len() + damaged.len());
    assert!(packs.is_ok_and(|packs| packs < lines) || !kinds[4]);
}

/// The chunks of a pack are in it, one after the other, and an index can describe them.
pub fn pack(bytes: &[u8]) {
    let Ok(chunks) = parse_pack("packs/1", bytes, REPOSITORY) else { return };
    let mut end = 0;
    for chunk in &chunks {
        assert!(chunk.offset >= end + 512, "a header is in front of it");
        end = chunk.offset + u64::from(chunk.stored);
        assert!(end <= bytes.len() as u64);
    }
    let packs = [IndexedPack { hash: ObjectHash::of(bytes), bytes: bytes.len() as u64, chunks }];
    let text = write_index(REPOSITORY, &packs);
    assert_eq!(parse_index("indexes/1", text.as_bytes(), REPOSITORY).expect("it is one"), packs);
}

/// A pack of these plaintexts, as `docs/formats/backup.md` describes it, with its chunks.
#[must_use]
pub fn seed(plains: &[&[u8]]) -> (Vec<u8>, Vec<PackedChunk>) {
    let mut content = Vec::new();
    let mut chunks = Vec::new();
    for (number, plain) in (1..).zip(plains) {
        let id = Id([number; 32]);
        let (offset, stored) =
            (content.len() as u64 + 512, u32::try_from(plain.len()).expect("short"));
        let chunk =
            PackedChunk { kind: Kind::Data, id, offset, stored, plain: stored, compressed: false };
        chunks.push(chunk);
        member(&mut content, &id.to_string(), plain);
    }
    let pack = IndexedPack { hash: ObjectHash([0; 32]), bytes: 1 << 20, chunks };
    let index = write_index(REPOSITORY, std::slice::from_ref(&pack));
    let lines = index.lines().filter(|line| !line.starts_with("pack "));
    let index: String = lines.map(|line| format!("{line}\n")).collect();
    let index = index.replacen("talaria backup index", "talaria backup pack", 1);
    member(&mut content, "index", index.as_bytes());
    content.resize((content.len() + 1024).max(4096), 0);
    (content, pack.chunks)
}

/// Appends a member of a tar archive (ustar).
fn member(archive: &mut Vec<u8>, name: &str, content: &[u8]) {
    let mut header = [0; 512];
    let size = format!("{:011o}\0", content.len());
    let fields: [(usize, &[u8]); 9] = [
        (0, name.as_bytes()),
        (100, b"0000600\0"),
        (108, b"0000000\0"),
        (116, b"0000000\0"),
        (124, size.as_bytes()),
        (136, b"00000000000\0"),
        (148, b"        "),
        (156, b"0"),
        (257, b"ustar\x0000"),
    ];
    for (at, field) in fields {
        header[at..at + field.len()].copy_from_slice(field);
    }
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive.extend_from_slice(&header);
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

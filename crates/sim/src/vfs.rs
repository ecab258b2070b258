//! The layer between SQLite and the system: a VFS that hands everything on to SQLite's own, and
//! tells the recorder.
//!
//! Files in folders without a recorder go past this layer. A sync of a recorded file is only
//! recorded: the simulation needs none.
//!
//! SQLite calls these functions with pointers that it got from `open`, and keeps the memory until
//! `close` has returned. The memory of a file holds [`Simulated`], and behind it the file of the
//! system's VFS.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Once, OnceLock};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods, sqlite3_vfs};

use crate::record::{Fault, FileId, Recorder, Step, folder_of, recorder_of, witness};

/// The beginning of the memory of an open file. `handle` comes from [`Box::into_raw`].
#[repr(C)]
struct Simulated {
    base: sqlite3_file,
    handle: *mut Handle,
}

/// The state of an open file.
struct Handle {
    recorder: Arc<Recorder>,
    file: FileId,
    /// The next sync also syncs this folder: SQLite does that for a journal or log that it may have
    /// created.
    syncs_folder: Option<String>,
}

/// A pointer to the VFS of the system, which SQLite never frees.
struct System(*mut sqlite3_vfs);

// SAFETY: The VFS is constant after SQLite has been initialized, and SQLite itself uses it from all
// threads.
unsafe impl Send for System {}
// SAFETY: As above.
unsafe impl Sync for System {}

static SYSTEM: OnceLock<System> = OnceLock::new();

/// Makes the layer the default of this process, and the recorder the witness of the store. Call it
/// before the first connection is opened.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        talaria_disk::watch(witness);
        // SAFETY: SQLite initializes itself here. The VFS that it returns, and the copy that is
        // leaked, live for ever. The copied functions work for the copy, since it has the same
        // data.
        unsafe {
            // Threads would wait for each other to count memory.
            let code = ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int);
            assert_eq!(code, ffi::SQLITE_OK, "nothing has used SQLite before");
            let system = ffi::sqlite3_vfs_find(std::ptr::null());
            assert!(!system.is_null(), "SQLite has a default VFS");
            let _ = SYSTEM.set(System(system));
            let own = size_of::<Simulated>();
            let layer = Box::leak(Box::new(sqlite3_vfs {
                szOsFile: (*system).szOsFile + c_int::try_from(own).expect("a few bytes"),
                pNext: std::ptr::null_mut(),
                zName: c"simulated".as_ptr(),
                xOpen: Some(open),
                xDelete: Some(delete),
                ..*system
            }));
            let code = ffi::sqlite3_vfs_register(layer, 1);
            assert_eq!(code, ffi::SQLITE_OK, "a VFS can be registered");
        }
    });
}

fn system() -> *mut sqlite3_vfs {
    SYSTEM.get().expect("set before the layer is registered").0
}

/// The path in a name from SQLite.
///
/// # Safety
///
/// `name` is null or ends with a zero byte, and lives longer than the result.
unsafe fn path<'a>(name: *const c_char) -> Option<&'a Path> {
    if name.is_null() {
        return None;
    }
    // SAFETY: Promised by the caller.
    let name = unsafe { CStr::from_ptr(name) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// The file of the system's VFS behind a file of this one.
///
/// # Safety
///
/// `file` is the memory of a file of this layer.
unsafe fn below(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: The memory has `szOsFile` bytes, which is more.
    unsafe { file.byte_add(size_of::<Simulated>()) }
}

/// The functions of the file of the system's VFS.
///
/// # Safety
///
/// `file` is an open file of this layer.
unsafe fn methods(file: *mut sqlite3_file) -> &'static sqlite3_io_methods {
    // SAFETY: The file below is open as long as this one, and its functions are constants.
    unsafe { &*(*below(file)).pMethods }
}

/// The state of a file.
///
/// # Safety
///
/// `file` is an open file of this layer, and SQLite uses it in one thread at a time.
unsafe fn handle<'a>(file: *mut sqlite3_file) -> &'a mut Handle {
    // SAFETY: `open` has set it, and `close` has not been called.
    unsafe { &mut *(*file.cast::<Simulated>()).handle }
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a name that stays as long as the file is open, and memory of `szOsFile`
    // bytes. The file of the system's VFS begins at the start of that memory, or behind
    // `Simulated`, whose size keeps it aligned.
    unsafe {
        let system = system();
        let open = (*system).xOpen.expect("every VFS has it");
        let Some((recorder, short)) = path(name).and_then(recorder_of) else {
            return open(system, name, file, flags, out_flags);
        };
        (*file).pMethods = std::ptr::null();
        if recorder.fault(Step::Open).is_some() {
            return ffi::SQLITE_CANTOPEN;
        }
        let code = open(system, name, below(file), flags, out_flags);
        if code != ffi::SQLITE_OK {
            return code;
        }
        const JOURNALS: c_int =
            ffi::SQLITE_OPEN_SUPER_JOURNAL | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL;
        let may_be_new = flags & ffi::SQLITE_OPEN_CREATE != 0 && flags & JOURNALS != 0;
        let syncs_folder = may_be_new.then(|| folder_of(&short).to_owned());
        let file_id = recorder.opened(&short);
        let handle = Box::into_raw(Box::new(Handle { recorder, file: file_id, syncs_folder }));
        (*file.cast::<Simulated>()).handle = handle;
        (*file).pMethods = &raw const METHODS;
        code
    }
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite gives a name that stays during the call.
    unsafe {
        let system = system();
        let delete = (*system).xDelete.expect("every VFS has it");
        let Some((recorder, short)) = path(name).and_then(recorder_of) else {
            return delete(system, name, sync);
        };
        if recorder.fault(Step::Remove).is_some() {
            return ffi::SQLITE_IOERR_DELETE;
        }
        let code = delete(system, name, 0);
        if code == ffi::SQLITE_OK {
            recorder.removed(&short);
            if sync != 0 {
                recorder.folder_synced(folder_of(&short));
            }
        }
        code
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes each file once. The handle comes from `Box::into_raw`.
    unsafe {
        let code = methods(file).xClose.expect("every file has it")(below(file));
        drop(Box::from_raw((*file.cast::<Simulated>()).handle));
        (*file).pMethods = std::ptr::null();
        code
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite gives an open file and `length` bytes.
    unsafe {
        let Handle { recorder, file: id, .. } = handle(file);
        let all = std::slice::from_raw_parts(bytes.cast::<u8>(), length.unsigned_abs() as usize);
        let at = offset.cast_unsigned();
        let write = methods(file).xWrite.expect("every file has it");
        let fault = recorder.fault(Step::Write { file: *id, end: at + all.len() as u64 });
        let (part, length) = match fault {
            None => (all, length),
            Some(Fault::Full) => (&all[..all.len() / 2], length / 2),
            Some(Fault::Broken) => return ffi::SQLITE_IOERR_WRITE,
        };
        let code = write(below(file), bytes, length, offset);
        if code == ffi::SQLITE_OK {
            recorder.written(*id, at, part);
        }
        if fault.is_some() { ffi::SQLITE_FULL } else { code }
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: i64) -> c_int {
    // SAFETY: SQLite gives an open file.
    unsafe {
        let Handle { recorder, file: id, .. } = handle(file);
        match recorder.fault(Step::Resize { file: *id, length: length.cast_unsigned() }) {
            None => {}
            Some(Fault::Full) => return ffi::SQLITE_FULL,
            Some(Fault::Broken) => return ffi::SQLITE_IOERR_TRUNCATE,
        }
        let code = methods(file).xTruncate.expect("every file has it")(below(file), length);
        if code == ffi::SQLITE_OK {
            note_length(file);
        }
        code
    }
}

/// Records the length of a file.
///
/// # Safety
///
/// `file` is an open file of this layer.
unsafe fn note_length(file: *mut sqlite3_file) {
    let mut length = 0;
    // SAFETY: The file is open, and the result goes to a variable.
    unsafe {
        if file_size(file, &raw mut length) == ffi::SQLITE_OK {
            let Handle { recorder, file: id, .. } = handle(file);
            recorder.resized(*id, length.cast_unsigned());
        }
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _: c_int) -> c_int {
    // SAFETY: SQLite gives an open file.
    let Handle { recorder, file: id, syncs_folder } = unsafe { handle(file) };
    if recorder.fault(Step::Sync).is_some() {
        recorder.sync_failed(*id);
        return ffi::SQLITE_IOERR_FSYNC;
    }
    recorder.synced(*id);
    if let Some(folder) = syncs_folder.take() {
        recorder.folder_synced(&folder);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(
    file: *mut sqlite3_file,
    number: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: Everything is handed on.
    unsafe {
        let control = methods(file).xFileControl.expect("every file has it");
        if number == ffi::SQLITE_FCNTL_SIZE_HINT {
            // The file may be extended at once.
            let code = control(below(file), number, argument);
            note_length(file);
            return code;
        }
        control(below(file), number, argument)
    }
}

/// Functions that hand everything on.
macro_rules! handed_on {
    ($($name:ident = $method:ident ( $($argument:ident : $type:ty),* ) -> $result:ty;)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $type)*) -> $result {
            // SAFETY: SQLite gives an open file, and the other arguments are handed on as they are.
            unsafe { methods(file).$method.expect("the file has it")(below(file) $(, $argument)*) }
        }
    )*};
}

handed_on! {
    read = xRead(bytes: *mut c_void, length: c_int, offset: i64) -> c_int;
    file_size = xFileSize(length: *mut i64) -> c_int;
    lock = xLock(level: c_int) -> c_int;
    unlock = xUnlock(level: c_int) -> c_int;
    check_reserved_lock = xCheckReservedLock(result: *mut c_int) -> c_int;
    sector_size = xSectorSize() -> c_int;
    device_characteristics = xDeviceCharacteristics() -> c_int;
    shm_map = xShmMap(page: c_int, length: c_int, extend: c_int, result: *mut *mut c_void) -> c_int;
    shm_lock = xShmLock(offset: c_int, count: c_int, flags: c_int) -> c_int;
    shm_barrier = xShmBarrier() -> ();
    shm_unmap = xShmUnmap(delete: c_int) -> c_int;
    fetch = xFetch(offset: i64, length: c_int, result: *mut *mut c_void) -> c_int;
    unfetch = xUnfetch(offset: i64, bytes: *mut c_void) -> c_int;
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

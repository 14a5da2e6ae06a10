// A library that stands before the C library and lets its calls on files fail on request, for paths under a prefix:
// opening (for writing, or of a folder), write, writev, pwrite, fsync, fdatasync, rename, ftruncate. Linux.
//
// Linked to a test it is driven by these functions; put before a program with LD_PRELOAD, by the environment:
//   FAULTY_IO_PREFIX=/folder/ FAULTY_IO_NTH=3 FAULTY_IO_ERROR=28 FAULTY_IO_STAYS=1
#pragma once

extern "C" {

// The nth call from now (from 1; 0: none) under `prefix` fails with `error`. stays: so do all later ones, and of a
// first write that fails half the bytes get through, as on a full disk. error 0: the nth call is a write that gets half
// its bytes through, and nothing fails. Starts counting anew.
void faulty_io_arm(const char* prefix, long nth, int error, bool stays);
void faulty_io_disarm();
// Calls under the prefix since it was armed.
long faulty_io_calls();
// The name of the last call that was made to fail, such as "rename"; "" if none.
const char* faulty_io_failed();
}

// A program begins by this: signals end it without leaving its temporary files behind, and its standard
// streams are its own.
#pragma once

namespace mkc {

// Installs handlers. `program` begins the message of a mapped file that another process has shortened, and
// stays valid. A signal that the caller ignores stays ignored. SIGPIPE and SIGXFSZ are ignored from now on,
// because write() reports their causes as errors. Programs that are started afterwards inherit that.
void handle_signals(const char* program);

// Removes temporary files and ends the process by the signal's default action.
void end_by_signal(int signal);

// Opens /dev/null for each of the descriptors 0 to 2 that is closed, so that no later file gets their
// numbers.
void reserve_standard_streams();

}  // namespace mkc

/* The C interface of libmkc, the compiler as a library: the command, kernels for the emulator, tokenizers
 * (docs/integrations.md). libmkc also has all functions of mkrt.h. The emulator's kernels run in the process
 * that compiles them, by mkrt.h's functions of the same library.
 *
 * A failed call returns NULL or a nonzero result, and mkc_error() says why. No function throws. A bug of the
 * compiler ends the process with 70, as it ends the command.
 *
 * Any thread may call any function. Threads may share a tokenizer, but not a mkc_text. */
#ifndef MKC_H
#define MKC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns what the last failed call of this thread found and expected; "" if none failed. The text is valid
 * until the thread's next call. */
const char* mkc_error(void);

/* Runs the command mkc. argv[0] is ignored. Returns its exit code. */
int mkc_command(int argc, char** argv);

/* A model compiled for the emulator. Its code and all that it points to stay until mkc_free_kernel(). */
typedef struct mkc_kernel {
  size_t size;                /* of this struct in bytes; later versions add members at its end */
  const void* entry;          /* the kernel, for mkrt_open_emulator; NULL with --mode=kernels */
  const void* const* kernels; /* [kernel_count], for mkrt_open_emulator_kernels */
  const void* pack;
  const char* manifest; /* [manifest_bytes], JSON */
  const void* plan;     /* [plan_bytes] */
  size_t manifest_bytes;
  size_t plan_bytes;
  uint32_t kernel_count;
  const char* checkpoint; /* the directory of the weights */
} mkc_kernel;

/* Compiles a model for the emulator, through the cache of compiled code. The arguments are MODEL and the
 * options of `mkc compile` for models and modes. Errors: those of the command. */
const mkc_kernel* mkc_compile_for_emulator(int count, const char* const* arguments);

/* Frees a kernel. NULL has no effect. Sessions of the kernel must be closed before. */
void mkc_free_kernel(const mkc_kernel* kernel);

/* A tokenizer of a checkpoint's tokenizer.json. */
typedef struct mkc_tokenizer mkc_tokenizer;

/* Reads tokenizer.json in a directory. Errors: there is none; an unsupported part, with its path. */
mkc_tokenizer* mkc_open_tokenizer(const char* directory);
void mkc_close_tokenizer(mkc_tokenizer* tokenizer);

/* Encodes UTF-8 text. At most `room` ids are written, and *count receives the number of all. A nonzero
 * `special` adds the tokens that begin or end a text. */
int mkc_encode(const mkc_tokenizer* tokenizer, const char* text, size_t bytes, int special, int32_t* ids,
               size_t room, size_t* count);

/* Decodes ids one by one. The tokenizer must outlive the mkc_text. */
typedef struct mkc_text mkc_text;

/* Begins a text. A nonzero `special` keeps special tokens. A run of byte tokens <0x..> is put out character
 * by character. From its first invalid character on, each byte becomes U+FFFD. */
mkc_text* mkc_begin_text(const mkc_tokenizer* tokenizer, int special);
/* Begins the text of ids that are all known. A run of byte tokens is put out at its end. One with an invalid
 * byte becomes U+FFFD for each of its bytes, as the package tokenizers decodes it. */
mkc_text* mkc_begin_whole_text(const mkc_tokenizer* tokenizer, int special);
/* Begins a text that goes on behind a prompt of `count` ids. The prompt's text is left out, but for a
 * character that the prompt begins and later ids complete. Nothing is removed from the front, such as the
 * first space of SentencePiece models, once the prompt has text. */
mkc_text* mkc_begin_text_after(const mkc_tokenizer* tokenizer, const int32_t* prompt, size_t count,
                               int special);
void mkc_end_text(mkc_text* text);

/* Returns the characters that ids complete, as UTF-8. A count of 0 returns the text that is left at the
 * end. *bytes receives its length, as a text may hold NUL. An id without a token becomes "<id>". The text
 * is valid until the next call of this function. */
const char* mkc_add_ids(mkc_text* text, const int32_t* ids, size_t count, size_t* bytes);

#ifdef __cplusplus
}
#endif
#endif

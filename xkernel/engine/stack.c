/* * stack.c - maps and prepares detachable stacks, and announces them to sanitizers and valgrind.
 *
 * In a build without sanitizers a switch is xk_context_swap and nothing else. AddressSanitizer is called before and
 * after each switch; it keeps a second, fake stack for each context, which rests in context->fake. ThreadSanitizer has
 * a fiber for each context; every prepare makes a new one, because abandoned code left its calls on the old one.
 * Valgrind is given the places of the stacks once.
 */
#define _GNU_SOURCE 1 /* gettid, pthread_getattr_np */

#include "xkernel/engine/stack.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef XK_CONTEXT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef XK_CONTEXT_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__has_include)
#if __has_include("valgrind/memcheck.h")
#include <valgrind/memcheck.h>
#endif
#endif
#ifndef RUNNING_ON_VALGRIND
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_STACK_REGISTER(start, end) 0
#define VALGRIND_STACK_DEREGISTER(id) ((void)(id))
#define VALGRIND_MAKE_MEM_UNDEFINED(start, len) ((void)(start))
#endif

/*
 * Marks functions that run while the sanitizers are between two stacks. A call that ThreadSanitizer sees begin on one
 * fiber must end on it, so the code that switches fibers is inlined into the code that switches stacks.
 */
#define STACK_UNSANITIZED __attribute__((no_sanitize_address, no_sanitize_thread))

/* Entry point of a prepared stack (switch_*.S). */
__attribute__((visibility("hidden"))) void xk_context_start(void);

/* The words of a prepared stack: what xk_context_swap finds there, and xk_context_start. */
#if defined(__x86_64__)
enum { STACK_WORDS = 6, STACK_ENTRY = 3, STACK_ARGUMENT = 2, STACK_RETURN = 1 };
#elif defined(__aarch64__)
enum { STACK_WORDS = 20, STACK_ENTRY = 2, STACK_ARGUMENT = 3, STACK_RETURN = 1 };
#else
#error "there is no switch_*.S for this processor"
#endif

/* ---- sanitizers ---- */

#ifdef XK_CONTEXT_ASAN
/*
 * Frees the fake stack of a context that was abandoned by an ordinary switch: reports to AddressSanitizer that this
 * thread goes there, leaves it for good and comes back.
 */
STACK_UNSANITIZED static void
stack_drop_fake(struct xk_context *context)
{
	void *mine = NULL;
	const void *bottom;
	size_t size;

	if (context->fake == NULL)
		return;
	__sanitizer_start_switch_fiber(&mine, context->bottom, context->size);
	__sanitizer_finish_switch_fiber(context->fake, &bottom, &size);
	__sanitizer_start_switch_fiber(NULL, bottom, size);
	__sanitizer_finish_switch_fiber(mine, NULL, NULL);
	context->fake = NULL;
}
#endif

/* Makes sanitizers forget a mapped context that is not running. */
static void
stack_forget(struct xk_context *context)
{
#ifdef XK_CONTEXT_ASAN
	stack_drop_fake(context);
	__asan_unpoison_memory_region(context->bottom, context->size);
#endif
#ifdef XK_CONTEXT_TSAN
	if (context->fiber != NULL)
		__tsan_destroy_fiber(context->fiber);
#endif
	context->fiber = NULL;
}

#if defined(XK_CONTEXT_ASAN) || defined(XK_CONTEXT_TSAN)

/* Announces to sanitizers that the thread is about to run on `to`. fake: keeps the old fake stack; NULL: it ends. */
STACK_UNSANITIZED __attribute__((always_inline)) static inline void
stack_depart(void **fake, const struct xk_context *to)
{
	(void)fake;
#ifdef XK_CONTEXT_ASAN
	__sanitizer_start_switch_fiber(fake, to->bottom, to->size);
#endif
#ifdef XK_CONTEXT_TSAN
	__tsan_switch_to_fiber(to->fiber, 0);
#endif
}

/* Reports to sanitizers that the thread runs on context. */
STACK_UNSANITIZED static void
stack_arrive(struct xk_context *context)
{
	(void)context;
#ifdef XK_CONTEXT_ASAN
	__sanitizer_finish_switch_fiber(context->fake, NULL, NULL);
	context->fake = NULL;
#endif
}

STACK_UNSANITIZED static void
stack_begin(void *argument)
{
	struct xk_context *context = argument;

	stack_arrive(context);
	context->entry(context->argument);
	__builtin_trap();
}

STACK_UNSANITIZED void
xk_context_switch(struct xk_context *from, struct xk_context *to)
{
	stack_depart(&from->fake, to);
	xk_context_swap(from, to);
	stack_arrive(from);
}

STACK_UNSANITIZED void
xk_context_leave(struct xk_context *from, struct xk_context *to)
{
	stack_depart(NULL, to);
	xk_context_swap(from, to);
	__builtin_trap();
}

#endif

/* ---- stacks ---- */

static void
stack_register(struct xk_context *context)
{
	context->valgrind_id =
		VALGRIND_STACK_REGISTER(context->bottom, (const char *)context->bottom + context->size - 1);
	context->registered = true;
}

int
xk_context_map(struct xk_context *context, size_t size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *lowest;

	if (size > SIZE_MAX / 2)
		return -ENOMEM;
	size = (size + page - 1) / page * page;
	size = size == 0 ? page : size;
	/* cppcheck-suppress invalidFunctionArg; -1 is what anonymous memory takes */
	lowest = mmap(NULL, page + size, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (lowest == MAP_FAILED)
		return -ENOMEM;
	if (mprotect(lowest, page, PROT_NONE) != 0) {
		munmap(lowest, page + size);
		return -ENOMEM;
	}
	*context = (struct xk_context){ .bottom = lowest + page, .size = size, .mapped = true };
	stack_register(context);
	return 0;
}

void
xk_context_unmap(struct xk_context *context)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	xk_assert(context->mapped);
	stack_forget(context);
	VALGRIND_STACK_DEREGISTER(context->valgrind_id);
	munmap((char *)(uintptr_t)context->bottom - page, context->size + page);
	*context = (struct xk_context){ .saved = NULL };
}

void
xk_context_prepare(struct xk_context *context, void (*entry)(void *argument), void *argument)
{
	/* All other words are zero: unwinding ends at a zero frame pointer and return address. */
	uintptr_t *top = (uintptr_t *)((uintptr_t)context->bottom + context->size), *word = top - STACK_WORDS;

	xk_debug_assert(context->mapped);
	stack_forget(context);
	(void)VALGRIND_MAKE_MEM_UNDEFINED(context->bottom, context->size);
	context->entry = entry;
	context->argument = argument;
#if defined(XK_CONTEXT_ASAN) || defined(XK_CONTEXT_TSAN)
	entry = stack_begin;
	argument = context;
#endif
#ifdef XK_CONTEXT_TSAN
	context->fiber = __tsan_create_fiber(0);
#endif
	for (unsigned i = 0; i < STACK_WORDS; i++)
		word[i] = 0;
	word[STACK_ENTRY] = (uintptr_t)entry;
	word[STACK_ARGUMENT] = (uintptr_t)argument;
	word[STACK_RETURN] = (uintptr_t)xk_context_start;
	context->saved = word;
}

#ifdef XK_CONTEXT_ASAN
/*
 * Finds the calling thread's own stack: AddressSanitizer reports to a beginning fiber where it came from. The system's
 * function is slow: for the first thread, it reads all of /proc/self/maps.
 */
STACK_UNSANITIZED static void
stack_find_own(struct xk_context *context)
{
	void *mine = NULL;

	__sanitizer_start_switch_fiber(&mine, &mine, sizeof(mine));
	__sanitizer_finish_switch_fiber(mine, &context->bottom, &context->size);
	__sanitizer_start_switch_fiber(&mine, context->bottom, context->size);
	__sanitizer_finish_switch_fiber(mine, NULL, NULL);
}
#endif

/* Registers the calling thread's own stack with valgrind. */
static void
stack_register_own(struct xk_context *context)
{
	pthread_attr_t attributes;
	void *bottom = NULL;

	if (pthread_getattr_np(pthread_self(), &attributes) != 0)
		return;
	if (pthread_attr_getstack(&attributes, &bottom, &context->size) == 0)
		context->bottom = bottom;
	pthread_attr_destroy(&attributes);
	if (context->bottom != NULL)
		stack_register(context);
}

void
xk_context_adopt(struct xk_context *context)
{
	*context = (struct xk_context){ .mapped = false };
#ifdef XK_CONTEXT_ASAN
	stack_find_own(context);
#endif
#ifdef XK_CONTEXT_TSAN
	context->fiber = __tsan_get_current_fiber();
#endif
	/* Valgrind knows the main thread's stack, but mistakes another thread's near ours for the same stack, grown. */
	if (RUNNING_ON_VALGRIND && getpid() != gettid())
		stack_register_own(context);
}

void
xk_context_disown(struct xk_context *context)
{
	xk_assert(!context->mapped);
	if (context->registered)
		VALGRIND_STACK_DEREGISTER(context->valgrind_id);
	*context = (struct xk_context){ .mapped = false };
}

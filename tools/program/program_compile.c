/*
 * program_compile.c - makes programs of graph files; see program_compile.h.
 *
 * graphs/generate.c writes the graph as C, which includes the protocols' files; the system's
 * compiler makes objects of it and links them with the libraries. Sources and libraries are those
 * of the build directory that this program is in, or of its installation. No shell sees a name.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/program/program_compile.h"

#include "graphs/compiled.h"
#include "tools/compile_config.h"

enum {
	COMPILE_TEMPORARY = 256,
	COMPILE_ARGUMENTS = 512,
	COMPILE_PATH = PATH_MAX,
	COMPILE_FLAGS = 32768,
	COMPILE_VARIANTS = 2,
	COMPILE_NAP_MS = 5 /* between two looks at a command */
};

/* Where things are. */
struct compile_place {
	char tree[COMPILE_PATH];      /* xkernel/ and protocols/ */
	char libraries[COMPILE_PATH]; /* the static ones */
};

/* One compilation, in a temporary directory of its own. */
struct compile_work {
	struct compile_place place;
	char directory[COMPILE_TEMPORARY], c[COMPILE_TEMPORARY + 16], objects[COMPILE_VARIANTS][COMPILE_TEMPORARY + 16];
};

/* ---- where things are ---- */

static bool
compile_is_there(const char *format, const char *directory)
{
	char path[COMPILE_PATH];

	return snprintf(path, sizeof(path), format, directory) < (int)sizeof(path) && access(path, R_OK) == 0;
}

static bool
compile_find_place(struct compile_place *place)
{
	char exe[COMPILE_PATH], *directory;
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (len <= 0)
		return false;
	exe[len] = '\0';
	directory = dirname(exe);
	if (compile_is_there("%s/libxkernel-programs.a", directory)) {
		snprintf(place->libraries, sizeof(place->libraries), "%s", directory);
		snprintf(place->tree, sizeof(place->tree), "%s", COMPILE_TREE);
	} else {
		snprintf(place->libraries, sizeof(place->libraries), "%.3000s/../%s", directory, COMPILE_LIBDIR);
		snprintf(place->tree, sizeof(place->tree), "%.3000s/../%s", directory, COMPILE_SOURCES);
	}
	if (compile_is_there("%s/graphs/generated.h", place->tree) &&
	    compile_is_there("%s/libxkernel-programs.a", place->libraries))
		return true;
	fprintf(stderr, "compile: the sources and libraries of this xk are not there: %s, %s\n", place->tree,
		place->libraries);
	return false;
}

/* ---- signals ---- */

/* Gets the signals that end this program: those that it was not started to ignore. */
static void
compile_signals(sigset_t *set)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action;

	sigemptyset(set);
	for (size_t i = 0; i < XK_ARRAY_LENGTH(ends); i++)
		if (sigaction(ends[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(set, ends[i]);
}

/*
 * Holds them back, until the old mask is set again, so that temporary files are removed. compile_end passes them on to
 * the command that runs.
 */
static void
compile_hold(sigset_t *before)
{
	sigset_t set;

	compile_signals(&set);
	sigprocmask(SIG_BLOCK, &set, before);
}

static bool
compile_is_to_end(void)
{
	sigset_t set, pending;

	compile_signals(&set);
	sigpending(&pending);
	sigandset(&pending, &pending, &set);
	return !sigisemptyset(&pending);
}

/* ---- commands ---- */

struct compile_command {
	char *arguments[COMPILE_ARGUMENTS + 1];
	unsigned count;
	bool is_long; /* more of them than there is room for */
};

static void
compile_argument(struct compile_command *command, const char *argument)
{
	if (command->count < COMPILE_ARGUMENTS)
		command->arguments[command->count++] = (char *)argument;
	else
		command->is_long = true;
}

/* Adds arguments up to NULL. */
static void
compile_arguments(struct compile_command *command, const char *const *arguments)
{
	while (*arguments != NULL)
		compile_argument(command, *arguments++);
}

#define COMPILE_ADD(command, ...) compile_arguments(command, (const char *const[]){ __VA_ARGS__, NULL })

/* Adds the words of text, which it divides. */
static void
compile_words(struct compile_command *command, char *text)
{
	char *rest, *word = strtok_r(text, " \n", &rest);

	for (; word != NULL; word = strtok_r(NULL, " \n", &rest))
		compile_argument(command, word);
}

/* Ends the arguments. Returns false, after a message, if there were too many. */
static bool
compile_is_whole(struct compile_command *command)
{
	command->arguments[command->count] = NULL;
	if (command->is_long)
		fprintf(stderr, "compile: %s has too many arguments\n", command->arguments[0]);
	return !command->is_long;
}

/* Starts the command, with no signal held back. output: its standard output, or -1. Returns -1 if it cannot be run. */
static pid_t
compile_begin(struct compile_command *command, int output)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	pid_t child = -1;
	int err;

	if (compile_is_to_end() || !compile_is_whole(command))
		return -1;
	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_init(&actions);
	if (output >= 0)
		posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	err = posix_spawnp(&child, command->arguments[0], &actions, &attributes, command->arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	if (err == 0)
		return child;
	fprintf(stderr, "compile: %s cannot be run: %s\n", command->arguments[0], strerror(err));
	return -1;
}

/* Waits for the command. Returns whether it succeeded. */
static bool
compile_end(pid_t child)
{
	struct timespec nap = { .tv_nsec = COMPILE_NAP_MS * 1000000 };
	pid_t ended;
	int status;

	if (child <= 0)
		return false;
	while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
		if (compile_is_to_end())
			kill(child, SIGTERM);
		nanosleep(&nap, NULL);
	}
	return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool
compile_run(struct compile_command *command)
{
	return compile_end(compile_begin(command, -1));
}

/* Asks pkg-config for the libraries that ours need. */
static bool
compile_ask_libraries(char *text, size_t size)
{
	struct compile_command command = { .count = 0 };
	char packages[] = COMPILE_PACKAGES;
	FILE *answer = tmpfile();
	size_t len = 0;
	bool good;

	COMPILE_ADD(&command, "pkg-config", "--libs");
	compile_words(&command, packages);
	good = answer != NULL && compile_end(compile_begin(&command, fileno(answer)));
	if (good) {
		rewind(answer);
		len = fread(text, 1, size - 1, answer);
	}
	if (answer != NULL)
		fclose(answer);
	text[len] = '\0';
	return good && len < size - 1;
}

/* ---- the steps ---- */

/* Adds the build's options, then those of XK_CFLAGS, whose words `text` holds. */
static void
compile_add_flags(struct compile_command *command, char *build, char text[COMPILE_FLAGS])
{
	const char *given = getenv("XK_CFLAGS");

	compile_words(command, build);
	if (given == NULL)
		return;
	if (snprintf(text, COMPILE_FLAGS, "%s", given) >= COMPILE_FLAGS)
		command->is_long = true;
	compile_words(command, text);
}

static pid_t
compile_begin_variant(const struct compile_work *work, unsigned watched)
{
	struct compile_command command = { .count = 0 };
	char compiler[] = COMPILE_CC, flags[] = COMPILE_FLAGS_TEXT, given[COMPILE_FLAGS], include[COMPILE_PATH + 2];

	snprintf(include, sizeof(include), "-I%s", work->place.tree);
	compile_words(&command, compiler);
	compile_add_flags(&command, flags, given);
	COMPILE_ADD(&command, watched ? "-DXK_WATCHED=1" : "-DXK_WATCHED=0", include, "-c", work->c, "-o",
		    work->objects[watched]);
	return compile_begin(&command, -1);
}

/* Hides the object's other names, which the library defines too. */
static bool
compile_localise(const struct compile_work *work, unsigned watched)
{
	struct compile_command command = { .count = 0 };

	COMPILE_ADD(&command, "objcopy",
		    watched ? "--keep-global-symbol=program_graph" : "--keep-global-symbol=xk_compiled_plain",
		    work->objects[watched]);
	return compile_run(&command);
}

/* Makes both variants at the same time. */
static bool
compile_objects(const struct compile_work *work)
{
	pid_t children[COMPILE_VARIANTS];
	bool good = true;

	for (unsigned i = 0; i < COMPILE_VARIANTS; i++)
		children[i] = compile_begin_variant(work, i);
	for (unsigned i = 0; i < COMPILE_VARIANTS; i++)
		good = compile_end(children[i]) && good;
	for (unsigned i = 0; i < COMPILE_VARIANTS; i++)
		good = good && compile_localise(work, i);
	return good;
}

static bool
compile_link(const struct compile_work *work, const char *output)
{
	struct compile_command command = { .count = 0 };
	char compiler[] = COMPILE_CC, ours[] = COMPILE_LIBRARIES, flags[] = COMPILE_LINK_FLAGS;
	char others[COMPILE_FLAGS] = "", given[COMPILE_FLAGS];
	char directory[COMPILE_PATH + 2];

	if (COMPILE_PACKAGES[0] != '\0' && !compile_ask_libraries(others, sizeof(others))) {
		fprintf(stderr, "compile: pkg-config does not know %s\n", COMPILE_PACKAGES);
		return false;
	}
	snprintf(directory, sizeof(directory), "-L%s", work->place.libraries);
	compile_words(&command, compiler);
	compile_add_flags(&command, flags, given);
	COMPILE_ADD(&command, "-o", output, work->objects[0], work->objects[1], directory);
	compile_words(&command, ours);
	compile_argument(&command, "-Wl,--as-needed");
	compile_words(&command, others);
	return compile_run(&command);
}

/* Makes one object of both variants. */
static bool
compile_join(const struct compile_work *work, const char *output)
{
	struct compile_command command = { .count = 0 };

	COMPILE_ADD(&command, "ld", "-r", "-o", output, work->objects[0], work->objects[1]);
	return compile_run(&command);
}

/* ---- the graph ---- */

/* Returns the file's text, for free, or NULL after a message. */
static char *
compile_text(const char *file, size_t *size)
{
	FILE *stream = fopen(file, "re");
	char *text = malloc(XK_GRAPH_FILE_MAX + 1);

	*size = stream == NULL || text == NULL ? 0 : fread(text, 1, XK_GRAPH_FILE_MAX, stream);
	if (stream != NULL)
		fclose(stream);
	if (*size != 0)
		return text;
	fprintf(stderr, "compile: %s cannot be read\n", file);
	free(text);
	return NULL;
}

static bool
compile_emit(const struct xk_graph *graph, const struct xk_graph_c_source *source, const char *file)
{
	FILE *stream = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
	struct xk_graph_errors errors = { .list = NULL };
	bool good = stream != NULL && xk_graph_compile(graph, source, stream, &errors) == 0;

	if (stream != NULL && stream != stdout)
		good = fclose(stream) == 0 && good;
	if (!good && errors.count == 0)
		fprintf(stderr, "compile: %s cannot be written: %s\n", file, strerror(errno));
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	return good;
}

/* ---- all of it ---- */

/* Makes a directory that only this user can write to, in $TMPDIR or /tmp. */
static bool
compile_make_directory(char directory[COMPILE_TEMPORARY])
{
	const char *parent = getenv("TMPDIR");

	if (parent == NULL || parent[0] == '\0')
		parent = "/tmp";
	errno = ENAMETOOLONG;
	if (snprintf(directory, COMPILE_TEMPORARY, "%s/xk-compile-XXXXXX", parent) < COMPILE_TEMPORARY &&
	    mkdtemp(directory) != NULL)
		return true;
	fprintf(stderr, "compile: no directory can be made in %s: %s\n", parent, strerror(errno));
	return false;
}

/* Makes the program, or the object, in a temporary directory. */
static bool
compile_build(const struct xk_graph *graph, const struct xk_graph_c_source *source, struct compile_work *work,
	      const char *output)
{
	size_t len = strlen(output);
	bool is_object = len > 2 && strcmp(output + len - 2, ".o") == 0, good;

	if (!compile_make_directory(work->directory))
		return false;
	snprintf(work->c, sizeof(work->c), "%s/graph.c", work->directory);
	snprintf(work->objects[0], sizeof(work->objects[0]), "%s/plain.o", work->directory);
	snprintf(work->objects[1], sizeof(work->objects[1]), "%s/watched.o", work->directory);
	good = compile_emit(graph, source, work->c) && compile_objects(work) &&
	       (is_object ? compile_join(work, output) : compile_link(work, output));
	unlink(work->c);
	for (unsigned i = 0; i < COMPILE_VARIANTS; i++)
		unlink(work->objects[i]);
	rmdir(work->directory);
	return good;
}

static bool
compile_file(const char *file, const char *output, const char *emit)
{
	struct compile_work work = { .directory = "" };
	struct xk_graph_c_source source = { .tree = work.place.tree };
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_graph *graph = xk_graph_load(file, NULL, 0, xk_protocol_types, &errors);
	bool good;

	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	if (graph == NULL)
		return false;
	source.text = compile_text(file, &source.size);
	good = source.text != NULL && compile_find_place(&work.place) &&
	       (emit == NULL || compile_emit(graph, &source, emit)) &&
	       (output == NULL || compile_build(graph, &source, &work, output));
	free((char *)source.text);
	xk_graph_free(graph);
	return good;
}

bool
compile_make(const char *file, const char *output, const char *emit)
{
	sigset_t before;
	bool good;

	compile_hold(&before);
	good = compile_file(file, output, emit);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return good;
}

/* Makes the program where nobody else can write, opens it and removes its name. Returns the descriptor, or -1. */
static int
compile_open(const char *file)
{
	char directory[COMPILE_TEMPORARY], path[sizeof(directory) + 16];
	int program = -1;

	if (!compile_make_directory(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/program", directory);
	if (compile_file(file, path, NULL))
		program = open(path, O_RDONLY | O_CLOEXEC);
	unlink(path);
	rmdir(directory);
	return program;
}

void
compile_exec(const char *file, const char *word, const char *what, int argc, char **argv)
{
	struct compile_command command = { .count = 0 };
	sigset_t before;
	int program;

	compile_hold(&before);
	program = compile_open(file);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (program < 0)
		return;
	COMPILE_ADD(&command, word, what);
	for (int i = 1; i < argc; i++)
		compile_argument(&command, argv[i]);
	fflush(NULL);
	if (compile_is_whole(&command)) {
		fexecve(program, command.arguments, environ);
		fprintf(stderr, "compile: the program cannot be run: %s\n", strerror(errno));
	}
	close(program);
}

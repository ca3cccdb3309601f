/*
 * program_compile.c - a program of a graph file: the graph as C (graphs/compile.c), of which the system's compiler makes a program with
 * the protocols' files and the library. Where those are is known of the build that the program stands in, or of the place that
 * it was installed to. No shell sees a name. See program_compile.h.
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
	COMPILE_NAP_MS = 5 /* between two looks at what runs */
};

/* Where things are. */
struct compile_place {
	char tree[COMPILE_PATH];      /* xkernel/ and protocols/ */
	char libraries[COMPILE_PATH]; /* the static ones */
};

/* One run of the compilation: a directory of its own, which goes with it. */
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
	if (compile_is_there("%s/xkernel/compiled.h", place->tree) &&
	    compile_is_there("%s/libxkernel-programs.a", place->libraries))
		return true;
	fprintf(stderr, "compile: the sources and libraries of this xk are not there: %s, %s\n", place->tree,
		place->libraries);
	return false;
}

/* ---- signals ---- */

/* Those that end a program; not what whoever started it has told it to ignore. */
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

/* They wait, until compile_release, for what has been made on the way to be gone; what runs is told of them. */
static void
compile_hold(sigset_t *before)
{
	sigset_t set;

	compile_signals(&set);
	sigprocmask(SIG_BLOCK, &set, before);
}

static void
compile_release(const sigset_t *before)
{
	sigprocmask(SIG_SETMASK, before, NULL);
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

/* The words of text, which is divided by that. */
static void
compile_words(struct compile_command *command, char *text)
{
	char *rest, *word = strtok_r(text, " \n", &rest);

	for (; word != NULL; word = strtok_r(NULL, " \n", &rest))
		compile_argument(command, word);
}

/* Whoever is started holds no signals. */
static int
compile_spawn(pid_t *child, char **arguments, const posix_spawn_file_actions_t *actions)
{
	posix_spawnattr_t attributes;
	sigset_t none;
	int error;

	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	error = posix_spawnp(child, arguments[0], actions, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	return error;
}

/* Ends the arguments, if they are all there. */
static bool
compile_is_whole(struct compile_command *command)
{
	command->arguments[command->count] = NULL;
	if (command->is_long)
		fprintf(stderr, "compile: %s has too many arguments\n", command->arguments[0]);
	return !command->is_long;
}

static pid_t
compile_begin(struct compile_command *command, int output)
{
	posix_spawn_file_actions_t actions;
	pid_t child = -1;
	int error;

	if (compile_is_to_end() || !compile_is_whole(command))
		return -1;
	posix_spawn_file_actions_init(&actions);
	if (output >= 0)
		posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	error = compile_spawn(&child, command->arguments, &actions);
	posix_spawn_file_actions_destroy(&actions);
	if (error == 0)
		return child;
	fprintf(stderr, "compile: %s cannot be run: %s\n", command->arguments[0], strerror(error));
	return -1;
}

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

/* What pkg-config says of the libraries that ours need. */
static bool
compile_ask_libraries(char *text, size_t size)
{
	struct compile_command command = { .count = 0 };
	char packages[] = COMPILE_PACKAGES;
	FILE *answer = tmpfile();
	size_t len = 0;
	bool good;

	compile_argument(&command, "pkg-config");
	compile_argument(&command, "--libs");
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

/* The build's options, then those of XK_CFLAGS, of which text becomes the words. */
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
	compile_argument(&command, watched ? "-DXK_WATCHED=1" : "-DXK_WATCHED=0");
	compile_argument(&command, include);
	compile_argument(&command, "-c");
	compile_argument(&command, work->c);
	compile_argument(&command, "-o");
	compile_argument(&command, work->objects[watched]);
	return compile_begin(&command, -1);
}

/* What is only the unit's own must not meet the library's. */
static bool
compile_localise(const struct compile_work *work, unsigned watched)
{
	struct compile_command command = { .count = 0 };

	compile_argument(&command, "objcopy");
	compile_argument(&command,
			 watched ? "--keep-global-symbol=program_graph" : "--keep-global-symbol=xk_compiled_plain");
	compile_argument(&command, work->objects[watched]);
	return compile_run(&command);
}

/* Both variants at the same time. */
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
	compile_argument(&command, "-o");
	compile_argument(&command, output);
	for (unsigned i = 0; i < COMPILE_VARIANTS; i++)
		compile_argument(&command, work->objects[i]);
	compile_argument(&command, directory);
	compile_words(&command, ours);
	compile_argument(&command, "-Wl,--as-needed");
	compile_words(&command, others);
	return compile_run(&command);
}

static bool
compile_is_object(const char *output)
{
	size_t len = strlen(output);

	return len > 2 && strcmp(output + len - 2, ".o") == 0;
}

/* Both variants as one object. */
static bool
compile_join(const struct compile_work *work, const char *output)
{
	struct compile_command command = { .count = 0 };

	compile_argument(&command, "ld");
	compile_argument(&command, "-r");
	compile_argument(&command, "-o");
	compile_argument(&command, output);
	for (unsigned i = 0; i < COMPILE_VARIANTS; i++)
		compile_argument(&command, work->objects[i]);
	return compile_run(&command);
}

/* ---- the graph ---- */

/* The file's text, which has been read once already. */
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

static struct xk_graph *
compile_load(const char *file)
{
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_graph *graph = xk_graph_load(file, NULL, 0, xk_protocol_types, &errors);

	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	return graph;
}

/* ---- all of it ---- */

/* One that nobody else may write to, where the environment says that such things are. */
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

static bool
compile_begin_work(struct compile_work *work)
{
	if (!compile_make_directory(work->directory))
		return false;
	snprintf(work->c, sizeof(work->c), "%s/graph.c", work->directory);
	snprintf(work->objects[0], sizeof(work->objects[0]), "%s/plain.o", work->directory);
	snprintf(work->objects[1], sizeof(work->objects[1]), "%s/watched.o", work->directory);
	return true;
}

static void
compile_end_work(const struct compile_work *work)
{
	unlink(work->c);
	for (unsigned i = 0; i < COMPILE_VARIANTS; i++)
		unlink(work->objects[i]);
	rmdir(work->directory);
}

static bool
compile_graph(const struct xk_graph *graph, const struct xk_graph_c_source *source, struct compile_work *work,
	      const char *output, const char *emit)
{
	bool good;

	if (emit != NULL && !compile_emit(graph, source, emit))
		return false;
	if (output == NULL)
		return true;
	if (!compile_begin_work(work))
		return false;
	good = compile_emit(graph, source, work->c) && compile_objects(work) &&
	       (compile_is_object(output) ? compile_join(work, output) : compile_link(work, output));
	compile_end_work(work);
	return good;
}

static bool
compile_file(const char *file, const char *output, const char *emit)
{
	struct compile_work work = { .directory = "" };
	struct xk_graph_c_source source = { .tree = work.place.tree };
	struct xk_graph *graph = compile_load(file);
	bool good;

	if (graph == NULL)
		return false;
	source.text = compile_text(file, &source.size);
	good = source.text != NULL && compile_find_place(&work.place) &&
	       compile_graph(graph, &source, &work, output, emit);
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
	compile_release(&before);
	return good;
}

/* An open program of the graph file, which has no name any more; -1: there is none. It was made where nobody else may write. */
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
	compile_release(&before);
	if (program < 0)
		return;
	compile_argument(&command, word);
	if (what != NULL)
		compile_argument(&command, what);
	for (int i = 1; i < argc; i++)
		compile_argument(&command, argv[i]);
	fflush(NULL);
	if (compile_is_whole(&command)) {
		fexecve(program, command.arguments, environ);
		fprintf(stderr, "compile: the program cannot be run: %s\n", strerror(errno));
	}
	close(program);
}

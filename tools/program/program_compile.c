/*
 * program_compile.c - see program_compile.h.
 *
 * graphs/generate.c writes the graph as C that includes the protocols' files; the system's compiler makes objects of it
 * and links them with the libraries. Sources and libraries come from the build directory or the installation that this
 * program is in. No shell sees a name.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
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
#include "tools/output.h"

enum {
	COMPILE_TEMPORARY = 256,
	COMPILE_ARGUMENTS = 512,
	COMPILE_PATH = PATH_MAX,
	COMPILE_FLAGS = 32768,
	COMPILE_VARIANTS = 2,
	COMPILE_NAP_MS = 5 /* between two looks at a command */
};

/* A command line, ended by NULL. */
struct compile_command {
	char *arguments[COMPILE_ARGUMENTS + 1];
	unsigned count; /* beyond COMPILE_ARGUMENTS: some did not fit */
};

/* One compilation, in a temporary directory of its own. */
struct compile_work {
	char tree[COMPILE_PATH];      /* with xkernel/ and protocols/ */
	char libraries[COMPILE_PATH]; /* the directory of the static ones */
	struct compile_command given; /* words of XK_CFLAGS */
	char directory[COMPILE_TEMPORARY], c[COMPILE_TEMPORARY + 16], objects[COMPILE_VARIANTS][COMPILE_TEMPORARY + 16];
};

/* ---- where things are ---- */

static bool
compile_is_there(const char *directory, const char *file)
{
	char path[COMPILE_PATH];

	return snprintf(path, sizeof(path), "%s/%s", directory, file) < (int)sizeof(path) && access(path, R_OK) == 0;
}

static bool
compile_find_place(struct compile_work *work)
{
	char exe[COMPILE_PATH], *directory;
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (len <= 0)
		return false;
	exe[len] = '\0';
	directory = dirname(exe);
	if (compile_is_there(directory, "libxkernel-programs.a")) {
		snprintf(work->libraries, sizeof(work->libraries), "%s", directory);
		snprintf(work->tree, sizeof(work->tree), "%s", COMPILE_TREE);
	} else {
		snprintf(work->libraries, sizeof(work->libraries), "%.3000s/../%s", directory, COMPILE_LIBDIR);
		snprintf(work->tree, sizeof(work->tree), "%.3000s/../%s", directory, COMPILE_SOURCES);
	}
	if (compile_is_there(work->tree, "graphs/generated.h") &&
	    compile_is_there(work->libraries, "libxkernel-programs.a"))
		return true;
	fprintf(stderr, "compile: the sources and libraries of this xk are not there: %s, %s\n", work->tree,
		work->libraries);
	return false;
}

/* ---- signals ---- */

/* Gets the signals that end this program, except those that are ignored. */
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

/* Blocks these signals until the old mask is set again, so that temporary files are removed. */
static void
compile_hold(sigset_t *before)
{
	sigset_t set;

	compile_signals(&set);
	sigprocmask(SIG_BLOCK, &set, before);
}

/* Returns true if one of them is pending: compile_end then ends the running command. */
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

static void
compile_argument(struct compile_command *command, const char *argument)
{
	if (command->count < COMPILE_ARGUMENTS)
		command->arguments[command->count] = (char *)argument;
	command->count++;
}

/* Adds arguments up to NULL. */
static void
compile_arguments(struct compile_command *command, const char *const *arguments)
{
	while (*arguments != NULL)
		compile_argument(command, *arguments++);
}

#define COMPILE_ADD(command, ...) compile_arguments(command, (const char *const[]){ __VA_ARGS__, NULL })

/* Adds the words of text, which is cut up. */
static void
compile_words(struct compile_command *command, char *text)
{
	char *rest, *word = strtok_r(text, " \n", &rest);

	for (; word != NULL; word = strtok_r(NULL, " \n", &rest))
		compile_argument(command, word);
}

static bool
compile_is_whole(const struct compile_command *command)
{
	if (command->count > COMPILE_ARGUMENTS)
		fprintf(stderr, "compile: %s has too many arguments\n", command->arguments[0]);
	return command->count <= COMPILE_ARGUMENTS;
}

/* Starts the command with no signal blocked. output: its standard output, or -1. Returns its pid, or -1. */
static pid_t
compile_begin(struct compile_command *command, int output)
{
	sigset_t none;
	pid_t child;

	if (compile_is_to_end() || !compile_is_whole(command))
		return -1;
	fflush(NULL);
	child = fork();
	if (child > 0)
		return child;
	if (child == 0) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		if (output >= 0)
			dup2(output, STDOUT_FILENO);
		execvp(command->arguments[0], command->arguments);
	}
	fprintf(stderr, "compile: %s cannot be run: %s\n", command->arguments[0], strerror(errno));
	if (child == 0) {
		fflush(stderr);
		_exit(127);
	}
	return -1;
}

/* Waits for the command. Returns true if it succeeded. */
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

/* ---- the steps ---- */

/* Compiles both variants at the same time. */
static bool
compile_objects(const struct compile_work *work)
{
	static const char *const variants[] = { "-DXK_WATCHED=0", "-DXK_WATCHED=1" };
	/* The other names stay local: the library defines them too. */
	static const char *const kept[] = { "--keep-global-symbol=xk_compiled_plain",
					    "--keep-global-symbol=program_graph" };
	char compiler[] = COMPILE_CC, flags[] = COMPILE_FLAGS_TEXT, include[COMPILE_PATH + 2];
	pid_t children[COMPILE_VARIANTS];
	bool good = true;

	struct compile_command command = { .count = 0 };

	snprintf(include, sizeof(include), "-I%s", work->tree);
	compile_words(&command, compiler);
	compile_words(&command, flags);
	compile_arguments(&command, (const char *const *)work->given.arguments);
	COMPILE_ADD(&command, include, "-c", work->c);
	for (unsigned i = 0; i < COMPILE_VARIANTS; i++) {
		struct compile_command variant = command;

		COMPILE_ADD(&variant, variants[i], "-o", work->objects[i]);
		children[i] = compile_begin(&variant, -1);
	}
	for (unsigned i = 0; i < COMPILE_VARIANTS; i++)
		good = compile_end(children[i]) && good;
	for (unsigned i = 0; i < COMPILE_VARIANTS; i++) {
		struct compile_command localise = { .count = 0 };

		COMPILE_ADD(&localise, "objcopy", kept[i], work->objects[i]);
		good = good && compile_end(compile_begin(&localise, -1));
	}
	return good;
}

/* Links both objects to the program. */
static bool
compile_link(const struct compile_work *work, const char *output)
{
	struct compile_command ask = { .count = 0 }, command = { .count = 0 };
	char compiler[] = COMPILE_CC, ours[] = COMPILE_LIBRARIES, flags[] = COMPILE_LINK_FLAGS;
	char packages[] = COMPILE_PACKAGES, others[COMPILE_FLAGS] = "", directory[COMPILE_PATH + 2];
	FILE *answer = packages[0] == '\0' ? NULL : tmpfile();
	bool good = packages[0] == '\0' || answer != NULL;

	if (answer != NULL) { /* the libraries that ours need */
		COMPILE_ADD(&ask, "pkg-config", "--libs");
		compile_words(&ask, packages);
		good = compile_end(compile_begin(&ask, fileno(answer)));
		rewind(answer);
		good = good && fread(others, 1, sizeof(others) - 1, answer) < sizeof(others) - 1;
		fclose(answer);
	}
	if (!good) {
		fprintf(stderr, "compile: pkg-config does not know %s\n", COMPILE_PACKAGES);
		return false;
	}
	snprintf(directory, sizeof(directory), "-L%s", work->libraries);
	compile_words(&command, compiler);
	compile_words(&command, flags);
	compile_arguments(&command, (const char *const *)work->given.arguments);
	COMPILE_ADD(&command, "-o", output, work->objects[0], work->objects[1], directory);
	compile_words(&command, ours);
	compile_argument(&command, "-Wl,--as-needed");
	compile_words(&command, others);
	return compile_end(compile_begin(&command, -1));
}

static bool
compile_emit(const struct xk_graph *graph, const struct xk_graph_c_source *source, const char *file)
{
	FILE *stream = output_open(file);
	struct xk_graph_errors errors = { .list = NULL };
	bool good = stream != NULL && xk_graph_compile(graph, source, stream, &errors) == 0;

	good = output_close(stream) && good;
	if (!good && errors.count == 0)
		fprintf(stderr, "compile: %s cannot be written: %s\n", file, strerror(errno));
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	return good;
}

/* ---- all of it ---- */

/* Makes a private directory in $TMPDIR or /tmp. */
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
	const char *flags = getenv("XK_CFLAGS");
	char *given = flags == NULL ? NULL : strdup(flags);
	size_t len = strlen(output);
	struct compile_command join = { .count = 0 };
	bool is_object = len > 2 && strcmp(output + len - 2, ".o") == 0, good;

	if (given != NULL)
		compile_words(&work->given, given);
	if (!compile_make_directory(work->directory)) {
		free(given);
		return false;
	}
	snprintf(work->c, sizeof(work->c), "%s/graph.c", work->directory);
	snprintf(work->objects[0], sizeof(work->objects[0]), "%s/plain.o", work->directory);
	snprintf(work->objects[1], sizeof(work->objects[1]), "%s/watched.o", work->directory);
	COMPILE_ADD(&join, "ld", "-r", "-o", output, work->objects[0], work->objects[1]);
	good = compile_emit(graph, source, work->c) && compile_objects(work) &&
	       (is_object ? compile_end(compile_begin(&join, -1)) : compile_link(work, output));
	unlink(work->c);
	for (unsigned i = 0; i < COMPILE_VARIANTS; i++)
		unlink(work->objects[i]);
	rmdir(work->directory);
	free(given);
	return good;
}

static bool
compile_file(const char *file, const char *output, const char *emit)
{
	struct compile_work work = { .directory = "" };
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_graph *graph = xk_graph_load(file, NULL, 0, xk_protocol_types, &errors);
	FILE *stream = graph == NULL ? NULL : fopen(file, "re");
	char *text = stream == NULL ? NULL : malloc(XK_GRAPH_FILE_MAX);
	struct xk_graph_c_source source = { .text = text, .tree = work.tree };
	bool good = false;

	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	if (text != NULL)
		source.size = fread(text, 1, XK_GRAPH_FILE_MAX, stream);
	if (source.size != 0)
		good = compile_find_place(&work) && (emit == NULL || compile_emit(graph, &source, emit)) &&
		       (output == NULL || compile_build(graph, &source, &work, output));
	else if (graph != NULL)
		fprintf(stderr, "compile: %s cannot be read\n", file);
	if (stream != NULL)
		fclose(stream);
	free(text);
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

void
compile_exec(const char *file, const char *word, const char *what, int argc, char **argv)
{
	char directory[COMPILE_TEMPORARY], path[sizeof(directory) + 16];
	struct compile_command command = { .count = 0 };
	sigset_t before;
	int program = -1;

	compile_hold(&before);
	if (compile_make_directory(directory)) {
		snprintf(path, sizeof(path), "%s/program", directory);
		if (compile_file(file, path, NULL))
			program = open(path, O_RDONLY | O_CLOEXEC);
		unlink(path); /* the open file stays */
		rmdir(directory);
	}
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

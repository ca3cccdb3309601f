/*
 * program_compile.c - see program_compile.h.
 *
 * The compiled source contains the graph file's text as a string, if there is one, and a table of protocols; the user's
 * own protocols are compiled with it. The table replaces the library's (protocols/meson.build), and the graph the one
 * of graphs/program.c. The compiler reads the source from an unnamed file, and no shell sees a name. Headers and
 * libraries come from this program's build directory or installation.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/program/program_compile.h"

#include "graphs/graph.h"
#include "tools/compile_config.h"
#include "tools/output.h"

enum {
	COMPILE_ARGUMENTS = 512,
	COMPILE_FLAGS = 32768,
	COMPILE_NAMES = 1024, /* of protocols */
	COMPILE_SOURCE = 1 << 20,
};

/* A command line, terminated by NULL. */
struct compile_command {
	char *arguments[COMPILE_ARGUMENTS + 1];
	unsigned count; /* beyond COMPILE_ARGUMENTS: some did not fit */
};

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

/* Adds the words of text, which is split in place. */
static void
compile_words(struct compile_command *command, char *text)
{
	char *rest, *word = strtok_r(text, " \n", &rest);

	for (; word != NULL; word = strtok_r(NULL, " \n", &rest))
		compile_argument(command, word);
}

static bool
compile_fits(const struct compile_command *command)
{
	if (command->count > COMPILE_ARGUMENTS)
		fprintf(stderr, "compile: %s has too many arguments\n", command->arguments[0]);
	return command->count <= COMPILE_ARGUMENTS;
}

/*
 * Runs the command with these descriptors as standard input and output (-1: this program's), and waits for it. It ends
 * when this program does. Returns true on success. Reports a command that cannot be run.
 */
static bool
compile_run(const struct compile_command *command, int input, int output)
{
	pid_t parent = getpid(), child;
	int status;

	if (!compile_fits(command))
		return false;
	fflush(NULL);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(127);
		if (input >= 0)
			dup2(input, STDIN_FILENO);
		if (output >= 0)
			dup2(output, STDOUT_FILENO);
		execvp(command->arguments[0], command->arguments);
	}
	if (child <= 0) {
		fprintf(stderr, "compile: %s cannot be run: %s%s\n", command->arguments[0], xk_error(errno),
			errno == ENOENT ? ": install it, or add its directory to PATH" : "");
		fflush(stderr);
	}
	if (child == 0)
		_exit(127);
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- headers and libraries ---- */

struct compile_place {
	char headers[PATH_MAX], libraries[PATH_MAX]; /* directories, as options of the compiler */
};

static bool
compile_find_libraries(struct compile_place *place)
{
	char exe[PATH_MAX / 2], file[PATH_MAX], *directory;
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (len <= 0) {
		fprintf(stderr, "compile: /proc/self/exe does not locate this program (is /proc mounted?): %s\n",
			xk_error(errno));
		return false;
	}
	exe[len] = '\0';
	directory = dirname(exe);
	snprintf(place->libraries, sizeof(place->libraries), "-L%s", directory);
	snprintf(place->headers, sizeof(place->headers), "-I%s", COMPILE_TREE);
	snprintf(file, sizeof(file), "%s/libxkernel-programs.a", directory);
	if (access(file, R_OK) == 0)
		return true;
	snprintf(place->libraries, sizeof(place->libraries), "-L%s/../%s", directory, COMPILE_LIBDIR);
	snprintf(place->headers, sizeof(place->headers), "-I%s/../%s", directory, COMPILE_HEADERS);
	snprintf(file, sizeof(file), "%s/libxkernel-programs.a", place->libraries + 2);
	if (access(file, R_OK) == 0)
		return true;
	fprintf(stderr, "compile: the libraries of this xk are missing: %s; a program made by xk compile has none\n",
		place->libraries + 2);
	return false;
}

/* ---- the C source ---- */

static void
compile_write_string(FILE *stream, const char *text)
{
	fputc('"', stream);
	for (; *text != '\0'; text++)
		if (*text == '\n')
			fputs("\\n\"\n\t\"", stream);
		else if (isalnum((unsigned char)*text) || strchr(" _-.=,;:<>[](){}/", *text) != NULL)
			fputc(*text, stream);
		else
			fprintf(stream, "\\%03o", (unsigned char)*text);
	fputc('"', stream);
}

/*
 * Finds the protocol that a file defines, by the file's name. Returns false if the file is part of another protocol, or
 * cannot be read.
 */
static bool
compile_type_of(const char *file, char *name, size_t size)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
	const char *slash = strrchr(file, '/'), *base = slash == NULL ? file : slash + 1;
	size_t len = strspn(base, letters);
	FILE *stream = fopen(file, "re");
	char *text = stream == NULL ? NULL : calloc(1, COMPILE_SOURCE), definition[XK_GRAPH_NAME_MAX + 32];
	bool is_one = false;

	if (text != NULL && len > 0 && len < size && strcmp(base + len, ".c") == 0 &&
	    fread(text, 1, COMPILE_SOURCE - 1, stream) > 0) {
		snprintf(name, size, "%.*s", (int)len, base);
		snprintf(definition, sizeof(definition), "xk_type_%s =", name);
		is_one = strstr(text, definition) != NULL;
	}
	free(text);
	if (stream != NULL)
		fclose(stream);
	return is_one;
}

static int
compile_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Writes the library's protocols and those of the files in `with`, which replace the library's of the same name. */
static void
compile_write_protocols(FILE *stream, const struct options_texts *with)
{
	static char own[OPTIONS_TEXTS][XK_GRAPH_NAME_MAX + 1];
	const char *names[COMPILE_NAMES];
	unsigned count = 0;

	for (unsigned i = 0; xk_protocol_types[i] != NULL && count < COMPILE_NAMES - OPTIONS_TEXTS; i++)
		names[count++] = xk_protocol_types[i]->name;
	for (unsigned i = 0; i < with->count; i++)
		if (compile_type_of(with->text[i], own[i], sizeof(own[i])))
			names[count++] = own[i];
	qsort(names, count, sizeof(*names), compile_compare);
	for (unsigned i = 0; i < count; i++)
		fprintf(stream, "extern const struct xk_protocol_type xk_type_%s;\n", names[i]);
	fputs("\nconst struct xk_protocol_type *const xk_protocol_types[] = {\n", stream);
	for (unsigned i = 0; i < count; i++)
		if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
			fprintf(stream, "\t&xk_type_%s,\n", names[i]);
	fputs("\tNULL,\n};\n\n", stream);
}

static void
compile_write_graph(FILE *stream, const char *file, const char *text)
{
	fputs("static const struct xk_graph_source source = { .file = ", stream);
	compile_write_string(stream, strncmp(file, "/dev/", 5) == 0 ? "graph.dot" : file);
	fputs(", .text =\n\t", stream);
	compile_write_string(stream, text);
	fputs(" };\nconst struct xk_graph_source *const xk_program_graph = &source;\n", stream);
}

/* Returns a descriptor of the source, at its start, or -1 after a message. */
static int
compile_write(const char *file, const char *text, const struct options_texts *with)
{
	int memory = memfd_create("graph.c", MFD_CLOEXEC);
	FILE *stream = memory < 0 ? NULL : fdopen(dup(memory), "w");
	bool good = stream != NULL;

	if (good) {
		fputs("#include \"graphs/graph.h\"\n\n", stream);
		compile_write_protocols(stream, with);
		if (text != NULL)
			compile_write_graph(stream, file, text);
		good = fclose(stream) == 0 && lseek(memory, 0, SEEK_SET) == 0;
	}
	if (good)
		return memory;
	fprintf(stderr, "compile: no memory for the source: %s\n", xk_error(errno));
	if (memory >= 0)
		close(memory);
	return -1;
}

/* ---- the program ---- */

/* Gets the libraries that ours need from pkg-config. Returns false after a message, from pkg-config or from here. */
static bool
compile_find_packages(char *libraries, size_t size)
{
	char packages[] = COMPILE_PACKAGES;
	struct compile_command ask = { .count = 0 };
	FILE *answer;
	bool good;

	libraries[0] = '\0';
	if (packages[0] == '\0')
		return true;
	COMPILE_ADD(&ask, "pkg-config", "--libs");
	compile_words(&ask, packages);
	answer = output_memory();
	good = answer != NULL && compile_run(&ask, -1, fileno(answer));
	if (good) {
		rewind(answer);
		libraries[fread(libraries, 1, size - 1, answer)] = '\0';
	}
	if (answer != NULL)
		fclose(answer);
	return good;
}

/* Compiles and links in one step. */
static bool
compile_build(const char *file, const char *text, const struct options_texts *with, const char *output)
{
	char compiler[] = COMPILE_CC, flags[] = COMPILE_FLAGS_TEXT, ours[] = COMPILE_LIBRARIES, others[COMPILE_FLAGS];
	size_t len = strlen(output);
	bool is_object = len > 2 && strcmp(output + len - 2, ".o") == 0, good;
	const char *environment = getenv("XK_CFLAGS");
	char *given = environment == NULL ? NULL : strdup(environment);
	struct compile_command command = { .count = 0 };
	struct compile_place place;
	int source;

	if (!compile_find_libraries(&place) || (!is_object && !compile_find_packages(others, sizeof(others))) ||
	    (source = compile_write(file, text, with)) < 0) {
		free(given);
		return false;
	}
	compile_words(&command, compiler);
	compile_words(&command, flags);
	if (given != NULL)
		compile_words(&command, given);
	COMPILE_ADD(&command, place.headers, "-o", output, "-x", "c", "-");
	compile_arguments(&command, (const char *const *)with->text);
	if (is_object) {
		COMPILE_ADD(&command, "-r", "-nostdlib");
	} else {
		COMPILE_ADD(&command, "-x", "none", place.libraries);
		compile_words(&command, ours);
		compile_argument(&command, "-Wl,--as-needed");
		compile_words(&command, others);
	}
	good = compile_run(&command, source, -1);
	close(source);
	free(given);
	return good;
}

/* Returns true if the program, which alone knows the protocols of `with`, accepts its graph. */
static bool
compile_is_accepted(const char *program)
{
	struct compile_command command = { .count = 0 };
	char path[PATH_MAX];
	FILE *discarded = output_memory();
	bool good;

	snprintf(path, sizeof(path), "%s%s", strchr(program, '/') == NULL ? "./" : "", program);
	COMPILE_ADD(&command, path, "check");
	good = discarded != NULL && compile_run(&command, -1, fileno(discarded));
	if (discarded != NULL)
		fclose(discarded);
	return good;
}

static bool
compile_graph(const char *file, const struct options_texts *with, const char *output)
{
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_graph *graph = with->count > 0 ? xk_graph_read(file, &errors)
						 : xk_graph_load(file, NULL, 0, xk_protocol_types, &errors);
	FILE *stream = graph == NULL || graph->refused ? NULL : fopen(file, "re");
	char *text = stream == NULL ? NULL : calloc(1, XK_GRAPH_FILE_MAX + 1);
	size_t len = strlen(output);
	bool good = text != NULL && fread(text, 1, XK_GRAPH_FILE_MAX, stream) > 0;

	if (stream == NULL && graph != NULL && !graph->refused)
		fprintf(stderr, "compile: %s cannot be read\n", file);
	xk_graph_errors_print(&errors, stderr);
	xk_graph_errors_clear(&errors);
	good = good && compile_build(file, text, with, output);
	if (good && with->count > 0 && strcmp(output + (len < 2 ? 0 : len - 2), ".o") != 0 &&
	    !compile_is_accepted(output)) {
		unlink(output);
		good = false;
	}
	if (stream != NULL)
		fclose(stream);
	free(text);
	xk_graph_free(graph);
	return good;
}

bool
compile_to_file(const char *file, const struct options_texts *with, const char *output)
{
	return file == NULL ? compile_build(NULL, NULL, with, output) : compile_graph(file, with, output);
}

void
compile_exec(const char *file, const char *command, const char *what, int argc, char **argv)
{
	static const struct options_texts none;
	struct compile_command line = { .count = 0 };
	int program = memfd_create(command, 0);
	char path[64];

	/* The compiler writes to this program's descriptor, which it inherits. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", program);
	if (program < 0 || !compile_to_file(file, &none, path))
		return;
	fcntl(program, F_SETFD, FD_CLOEXEC);
	COMPILE_ADD(&line, "compiled", command, what);
	for (int i = 1; i < argc; i++)
		compile_argument(&line, argv[i]);
	/* the last --graph counts: this one replaces a pipe that has been read */
	COMPILE_ADD(&line, "--graph", file);
	fflush(NULL);
	if (compile_fits(&line)) {
		fexecve(program, line.arguments, environ);
		fprintf(stderr, "compile: the program cannot be run: %s\n", xk_error(errno));
	}
	close(program);
}

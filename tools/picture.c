/* picture.c - see picture.h. */
#include "tools/picture.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "xkernel/base.h"

enum { PICTURE_NO_COMMAND = 127 /* the shell's status */ };

/* Returns the middle of the x coordinates in "x,y x,y ...", with letters between, up to a quote. */
static double
picture_middle(const char *points)
{
	double low = HUGE_VAL, high = -HUGE_VAL;

	while (*points != '\0' && *points != '"') {
		char *end;
		double x = strtod(points, &end);

		if (end == points) {
			points++;
			continue;
		}
		low = fmin(low, x);
		high = fmax(high, x);
		if (*end == ',')
			strtod(end + 1, &end);
		points = end;
	}
	return (low + high) / 2;
}

/* Returns the start of the coordinates of a line's shape, or NULL if it has none. */
static const char *
picture_shape(const char *line)
{
	static const char *const starts[] = { " points=\"", " d=\"M", " cx=\"" };

	for (size_t i = 0; i < XK_ARRAY_LENGTH(starts); i++) {
		const char *start = strstr(line, starts[i]);

		if (start != NULL)
			return start + strlen(starts[i]);
	}
	return NULL;
}

/*
 * Copies dot's SVG, but centres the rows of nodes and of the title. dot places the start of each piece of a row, as
 * measured in a font that other systems do not have.
 */
static void
picture_svg(FILE *in, FILE *out)
{
	bool wants_middle = false, has_middle = false, in_row = false;
	double middle = 0, y, row = 0;
	char *line = NULL, *text_end;
	size_t size = 0;

	while (getline(&line, &size, in) > 0) {
		int len = 0;

		if (has_middle && sscanf(line, "<text text-anchor=\"start\" x=\"%*f\" y=\"%lf\"%n", &y, &len) == 1 &&
		    len > 0 && (text_end = strstr(line, "</text>")) != NULL) {
			*text_end = '\0';
			if (in_row && y == row)
				fprintf(out, "<tspan%s</tspan>", line + len);
			else
				fprintf(out, "%s<text text-anchor=\"middle\" x=\"%.2f\" y=\"%.2f\"%s",
					in_row ? "</text>\n" : "", middle, y, line + len);
			in_row = true;
			row = y;
			continue;
		}
		fputs(in_row ? "</text>\n" : "", out);
		in_row = false;
		if (strncmp(line, "<g ", 3) == 0) {
			wants_middle =
				strstr(line, "class=\"node\"") != NULL || strstr(line, "class=\"graph\"") != NULL;
			has_middle = false;
		} else if (wants_middle && !has_middle && picture_shape(line) != NULL) {
			middle = picture_middle(picture_shape(line));
			has_middle = true;
		}
		fputs(line, out);
	}
	free(line);
}

int
picture_write(FILE *text, const char *format, FILE *out, char *why, size_t size)
{
	FILE *picture = NULL;
	char command[64], bytes[4096];
	int status = -1, input, err;
	size_t len;

	if (text == NULL || fflush(text) != 0) {
		err = errno;
		snprintf(why, size, "no memory for dot's input: %s", xk_error(err));
		return -err;
	}
	input = dup(fileno(text)); /* the copy is inherited */
	snprintf(command, sizeof(command), "exec dot -T%s </proc/self/fd/%d", format, input);
	if (input >= 0)
		picture = popen(command, "re");
	err = errno;
	if (picture != NULL && strcmp(format, "svg") == 0)
		picture_svg(picture, out);
	while (picture != NULL && (len = fread(bytes, 1, sizeof(bytes), picture)) > 0)
		fwrite(bytes, 1, len, out);
	if (picture != NULL)
		status = pclose(picture);
	if (input >= 0)
		close(input);
	if (status == 0)
		return 0;
	if (picture == NULL)
		snprintf(why, size, "dot cannot be run: %s", xk_error(err));
	else if (status < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == PICTURE_NO_COMMAND))
		snprintf(why, size,
			 "dot cannot be run; it is in the package graphviz, and -o NAME.dot works without it");
	else
		snprintf(why, size, "dot failed");
	return -EIO;
}

/* xk_run_table.c - a table of counts; see xk_run_private.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/xk/xk_run_private.h"

enum {
	TABLE_WIDTH = 110,
	TABLE_NAMES = 24, /* narrowest column of names */
	TABLE_LEAST = 8,  /* narrowest column of counts */
	TABLE_TEXT = 24,
	TABLE_ROWS = 64, /* allocated at a time */
};

#define TABLE_ABSENT UINT64_MAX

void
run_table_column(struct run_table *table, const char *head)
{
	table->heads[table->columns++] = head;
	table->next_row = 0;
}

void
run_table_tell(void *to, const char *name, uint64_t count)
{
	struct run_table *table = to;
	struct run_row *rows = table->rows;
	unsigned i = 0;

	while (i < table->row_count && strcmp(rows[i].name, name) != 0)
		i++;
	if (i == table->row_count) {
		if (i % TABLE_ROWS == 0)
			rows = reallocarray(rows, i + TABLE_ROWS, sizeof(*rows));
		if (rows == NULL) {
			table->no_memory = true;
			return;
		}
		table->rows = rows;
		i = table->next_row;
		memmove(&rows[i + 1], &rows[i], (table->row_count++ - i) * sizeof(*rows));
		snprintf(rows[i].name, sizeof(rows[i].name), "%s", name);
		for (unsigned k = 0; k < RUN_COLUMNS; k++)
			rows[i].counts[k] = TABLE_ABSENT;
	}
	rows[i].counts[table->columns - 1] = count;
	table->next_row = i + 1;
}

/* ---- printing ---- */

/* Returns the length of the node in a row's name. */
static size_t
table_node_len(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot == NULL ? 0 : (size_t)(dot - name);
}

bool
run_table_has(const struct run_table *table, const char *word, size_t len)
{
	for (unsigned i = 0; i < table->row_count; i++)
		if (len > 0 && table_node_len(table->rows[i].name) == len &&
		    memcmp(table->rows[i].name, word, len) == 0)
			return true;
	return false;
}

static bool
table_is_shown(const struct run_row *row, const char *own, const char *show)
{
	size_t node_len = table_node_len(row->name), len;
	const char *node = node_len == 0 ? own : row->name;

	if (node_len == 0)
		node_len = strlen(own);
	for (; show != NULL && *show != '\0'; show += len + (show[len] == ',')) {
		len = strcspn(show, ",");
		if (len == node_len && memcmp(show, node, len) == 0)
			return true;
	}
	return show == NULL;
}

/* Returns whether the row has nothing to show in columns first to end - 1. */
static bool
table_is_zero(const struct run_row *row, unsigned first, unsigned end)
{
	for (; first < end; first++)
		if (row->counts[first] != 0 && row->counts[first] != TABLE_ABSENT)
			return false;
	return true;
}

/* Writes `count`, or "-" if there is none. Returns the length. */
static int
table_write_count(char text[TABLE_TEXT], uint64_t count)
{
	return count == TABLE_ABSENT ? snprintf(text, TABLE_TEXT, "-") : snprintf(text, TABLE_TEXT, "%" PRIu64, count);
}

static int
table_max(int a, int b)
{
	return a > b ? a : b;
}

void
run_table_print(const struct run_table *table, const char *own, const char *show, FILE *out)
{
	int names = TABLE_NAMES, width = TABLE_LEAST;
	char text[TABLE_TEXT];
	unsigned fit;

	/* all columns are as wide as the widest head or count */
	for (unsigned k = 0; k < table->columns; k++)
		width = table_max(width, (int)strlen(table->heads[k]));
	for (unsigned i = 0; i < table->row_count; i++) {
		for (unsigned k = 0; k < table->columns; k++)
			width = table_max(width, table_write_count(text, table->rows[i].counts[k]));
		if (table_is_shown(&table->rows[i], own, show))
			names = table_max(names, (int)strlen(table->rows[i].name));
	}
	fit = TABLE_WIDTH > names + width + 1 ? (unsigned)((TABLE_WIDTH - names) / (width + 1)) : 1;
	for (unsigned first = 0; first < table->columns; first += fit) {
		unsigned end = first + fit < table->columns ? first + fit : table->columns;
		bool begun = false;

		for (unsigned i = 0; i < table->row_count; i++) {
			const struct run_row *row = &table->rows[i];

			if (!table_is_shown(row, own, show) || table_is_zero(row, first, end))
				continue;
			for (unsigned k = first; !begun && k < end; k++)
				fprintf(out, "%*s%s", k == first ? names + 1 + width : width + 1, table->heads[k],
					k + 1 == end ? "\n" : "");
			begun = true;
			fprintf(out, "%-*s", names, row->name);
			for (unsigned k = first; k < end; k++) {
				table_write_count(text, row->counts[k]);
				fprintf(out, " %*s", width, text);
			}
			fputc('\n', out);
		}
		if (begun)
			fputc('\n', out);
	}
}

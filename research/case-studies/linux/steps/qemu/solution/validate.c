/* The first program of the machine: checks both features, and restarts it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "/app/linux/include/uapi/linux/pid_summary.h"

static int failed;

static void check(int good, const char *about)
{
	printf("%s %s\n", good ? "ok" : "FAILED", about);
	failed += !good;
}

static long ask(int pid, void *out, size_t size)
{
	return syscall(451, pid, out, size) ? -errno : 0;
}

/* Whether the entry of a process is what the summary says. */
static int agrees(int pid, const struct pid_summary *summary)
{
	char path[64], expected[256], found[256] = "";

	snprintf(path, sizeof(path), "/proc/%d/pid_summary", pid);
	snprintf(expected, sizeof(expected), "Pid:\t%d\nPPid:\t%d\nUid:\t%u\nThreads:\t%u\nRss:\t%llu\nComm:\t%s\n",
		 summary->pid, summary->ppid, summary->uid, summary->threads, (unsigned long long)summary->rss,
		 summary->comm);
	FILE *in = fopen(path, "r");
	if (!in)
		return 0;
	found[fread(found, 1, sizeof(found) - 1, in)] = 0;
	fclose(in);
	return !strcmp(found, expected);
}

int main(void)
{
	struct pid_summary one = { 0 }, other = { 0 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	mkdir("/proc", 0755);
	mount("proc", "/proc", "proc", 0, NULL);

	check(!ask(0, &one, sizeof(one)) && one.pid == 1 && one.threads == 1, "the caller");
	check(one.rss > 0 && !strcmp(one.comm, "init"), "its memory and name");
	check(ask(-1, &one, sizeof(one)) == -EINVAL, "a negative PID");
	check(ask(0, &one, sizeof(one) - 1) == -EINVAL, "too small a size");
	check(ask(30000, &one, sizeof(one)) == -ESRCH, "no such process");
	check(ask(0, NULL, sizeof(one)) == -EFAULT, "no place to write to");

	int ready[2];
	char byte;
	if (pipe(ready))
		return 1;
	pid_t child = fork();
	if (!child) {
		if (setuid(1000) || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	check(read(ready[0], &byte, 1) == 1, "a child");
	usleep(100000); /* until it sleeps: then its memory stays as it is */
	check(!ask(child, &other, sizeof(other)) && other.pid == child && other.ppid == 1 && other.uid == 1000,
	      "what the system call tells of it");
	check(agrees(child, &other), "its entry in /proc agrees");
	check(!ask(2, &one, sizeof(one)) && one.rss == 0 && agrees(2, &one), "a kernel thread");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	check(ask(child, &other, sizeof(other)) == -ESRCH, "a process that has ended");
	puts(failed ? "all done, but not all holds" : "all checks hold");
	sleep(1);
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}
